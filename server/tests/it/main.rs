//! The server over HTTP: the real router on a real database, a fresh one for each test.

#[cfg(test)]
mod access;
#[cfg(test)]
mod accounts;
#[cfg(test)]
mod batch;
#[cfg(test)]
mod c21_expiry;
#[cfg(test)]
mod c25_idempotency;
#[cfg(test)]
mod cli;
#[cfg(test)]
mod cursors;
#[cfg(test)]
mod description;
#[cfg(test)]
mod export;
#[cfg(test)]
mod grants;
#[cfg(test)]
mod holds;
#[cfg(test)]
mod hostile;
#[cfg(test)]
mod patience;
#[cfg(test)]
mod problems;
#[cfg(test)]
mod schema;
#[cfg(test)]
mod scopes;
#[cfg(test)]
mod security;
#[cfg(test)]
mod support;
#[cfg(test)]
mod usage;
