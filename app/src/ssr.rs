//! What the server mounts: the contexts, and the routes that are no pages.

use leptos::context::provide_context;

use crate::context::AppContext;

pub use crate::history::csv::{account_history_csv, history_csv};

/// The one closure that gives pages, server functions and the fallback the same contexts. The server wraps it
/// to add what changes with each request: the nonce and the client's address.
pub fn provide(context: AppContext) -> impl Fn() + Clone + Send + Sync + 'static {
    move || {
        let AppContext { ledger, access, instance, assets, clock } = context.clone();
        provide_context(ledger);
        provide_context(access);
        provide_context(instance);
        provide_context(assets);
        provide_context(clock);
    }
}
