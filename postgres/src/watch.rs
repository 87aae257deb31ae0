//! The thread that starts a server again when it dies under its users.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle, Thread};
use std::time::Duration;

use crate::running::Shared;

const LOOK_EVERY: Duration = Duration::from_millis(200);
/// The wait after a failed restart, so that a full disk does not become a busy loop.
const BACK_OFF: Duration = Duration::from_secs(2);

/// What the watching thread saw or did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WatchEvent {
    /// The server is gone.
    Died,
    /// It answers again.
    Restarted,
    /// It could not be started; tried again after a pause. The text says why.
    RestartFailed(String),
}

/// Ends its thread when it is dropped.
pub(crate) struct Watcher {
    ended: Arc<AtomicBool>,
    handle: Option<JoinHandle<()>>,
}

impl Watcher {
    pub(crate) fn start(shared: Arc<Shared>, on_event: impl Fn(WatchEvent) + Send + 'static) -> Self {
        let ended = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&ended);
        let handle = thread::spawn(move || {
            while !seen.load(Ordering::Acquire) {
                thread::park_timeout(look(&shared, &seen, &on_event));
            }
        });
        Self { ended, handle: Some(handle) }
    }
}

/// One look; answers how long to wait for the next.
fn look(shared: &Shared, ended: &AtomicBool, on_event: &impl Fn(WatchEvent)) -> Duration {
    if shared.is_up() || ended.load(Ordering::Acquire) {
        return LOOK_EVERY;
    }
    on_event(WatchEvent::Died);
    match shared.ensure_running() {
        Ok(()) => {
            on_event(WatchEvent::Restarted);
            LOOK_EVERY
        }
        Err(error) => {
            on_event(WatchEvent::RestartFailed(error.to_string()));
            BACK_OFF
        }
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Release);
        if let Some(handle) = self.handle.take() {
            let thread: &Thread = handle.thread();
            thread.unpark();
            if thread.id() != thread::current().id() {
                // A callback that panicked has ended the thread already, which is all that is wanted here.
                let _ended = handle.join();
            }
        }
    }
}

impl fmt::Debug for Watcher {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Watcher").finish_non_exhaustive()
    }
}
