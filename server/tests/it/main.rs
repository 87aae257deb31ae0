//! The server over HTTP: the real router on a real database, a fresh one for each test.

mod access;
mod accounts;
mod batch;
mod c25_idempotency;
mod description;
mod grants;
mod hostile;
mod problems;
mod scopes;
mod security;
mod support;
mod usage;
