//! Throw-away clusters whose process was killed before it could clean up: stopped and removed by the next one.

use std::fs::{self, File};
use std::path::Path;

use crate::layout::{THROW_AWAY_PREFIX, temporary_root};
use crate::postmaster::{self, Life, Stop};

/// Removes what nobody uses. Whatever cannot be removed (another user's, just being made) is left alone.
pub(crate) fn leftovers() {
    let Ok(entries) = fs::read_dir(temporary_root()) else { return };
    for entry in entries.filter_map(Result::ok) {
        if entry.file_name().to_string_lossy().starts_with(THROW_AWAY_PREFIX) {
            sweep(&entry.path());
        }
    }
}

fn sweep(state: &Path) {
    // The file gets this name only after it is locked, so an unlocked one has lost its user.
    let Ok(users) = File::options().write(true).open(state.join("users")) else { return };
    if users.try_lock().is_err() {
        return;
    }
    if let Life::Alive(file) = postmaster::life(&state.join("data")) {
        // A server that does not stop keeps its folder, and the next sweep tries again.
        if postmaster::stop(&state.join("data"), file.pid, Stop::Immediate, || {}).is_err() {
            return;
        }
    }
    let _removed = fs::remove_dir_all(state);
}
