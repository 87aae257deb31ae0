//! The web app: shell, pages, components, islands and server functions.
//!
//! Pages are rendered on the server and are whole without script. The browser half (feature `hydrate`)
//! compiles [`islands`], the server function they call and [`error`], and nothing else; everything else
//! stands behind `ssr`. The two features are never on in one build.
//!
//! To add a page: a file under `pages/<role>/`, a route in [`router`], its rights, a spec in `end2end/specs`.

pub mod api;
pub mod error;
pub mod islands;

#[cfg(feature = "ssr")]
mod charts;
#[cfg(feature = "ssr")]
mod components;
#[cfg(feature = "ssr")]
mod context;
#[cfg(feature = "ssr")]
mod figures;
#[cfg(feature = "ssr")]
mod format;
#[cfg(feature = "ssr")]
pub mod history;
#[cfg(feature = "ssr")]
mod pages;
#[cfg(feature = "ssr")]
mod router;
#[cfg(feature = "ssr")]
pub mod session;
#[cfg(feature = "ssr")]
mod shell;
#[cfg(feature = "ssr")]
pub mod ssr;
#[cfg(feature = "ssr")]
mod words;

#[cfg(feature = "ssr")]
pub use context::{AppContext, Assets, MachineClock};
#[cfg(feature = "ssr")]
pub use router::App;
#[cfg(feature = "ssr")]
pub use shell::shell;

/// Called once by the hydration script; each island is then woken by its own exported function.
#[cfg(feature = "hydrate")]
#[wasm_bindgen::prelude::wasm_bindgen]
pub fn hydrate() {
    leptos::mount::hydrate_islands();
}
