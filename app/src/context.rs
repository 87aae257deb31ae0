//! What the server gives the app.

use backoffice::Instance;
use backoffice::access::Access;
use chrono::{DateTime, Utc};
use ledger::Ledger;

/// Everything that stays the same for the life of the process.
#[derive(Clone)]
pub struct AppContext {
    pub ledger: Ledger,
    pub access: Access,
    pub instance: Instance,
    pub assets: Assets,
    pub clock: MachineClock,
}

/// The machine's clock, for what people are bound to, such as the waits between sign-ins. It goes on where a rehearsal's
/// clock stands still.
#[derive(Clone, Copy)]
pub struct MachineClock(pub fn() -> DateTime<Utc>);

/// Full paths of the built files. Without `js` or `wasm` the pages work as they are; without `css` they are
/// plain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Assets {
    pub css: Option<String>,
    pub js: Option<String>,
    pub wasm: Option<String>,
}
