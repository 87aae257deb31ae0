//! The daybook server: configuration, HTTP API, sessions, security headers and the pages' host.
//!
//! [`serve::router`] puts everything together over one [`state::AppState`]. Handlers stay thin: who asks,
//! what is asked, one verb of a room below, and the answer in the API's words.

pub mod config;
pub mod connections;
pub mod http;
pub mod security;
pub mod serve;
pub mod session;
pub mod state;
