//! A private Postgres: found, initialised, started, watched and stopped.
//!
//! One cluster lies in one state folder ([`Options`]). Any number of processes may use it at once: the first one
//! starts it, the others join, the last one out stops it. A cluster that outlived a crash of its users is simply
//! joined by the next one. Nothing listens on a network: the only way in is a Unix socket in a folder of mode 0700.
//!
//! ```no_run
//! use daybook_postgres::{Cluster, Options};
//! let running = Cluster::open_or_init(Options::for_project(".".as_ref())?)?.start()?;
//! println!("{}", running.url());
//! # Ok::<(), daybook_postgres::PostgresError>(())
//! ```
//!
//! The rooms: `find` knows where systems keep the programs, `layout` where the state lies, `account` as whom Postgres
//! runs, `postmaster` what the running server says about itself, `cluster` how data come to be, `running` how a
//! server lives and ends. A new place to look for programs goes into `find`; a new server setting into `settings`.

mod account;
mod cluster;
mod error;
mod find;
mod layout;
mod postmaster;
mod running;
mod settings;
mod sweep;
mod watch;

pub use cluster::Cluster;
pub use error::PostgresError;
pub use find::{Binaries, all_binaries, find_binaries};
pub use layout::{Durability, Options};
pub use running::Running;
pub use watch::WatchEvent;
