//! Counters for a monitoring system, in its text form.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::http::StatusCode;

/// Counts since the process began.
#[derive(Debug, Default)]
pub struct Metrics {
    /// By the status' first digit; the first place is unused.
    responses: [AtomicU64; 6],
    replays: AtomicU64,
    panics: AtomicU64,
}

impl Metrics {
    pub fn count_response(&self, status: StatusCode) {
        let class = usize::from(status.as_u16() / 100).min(5);
        self.responses[class].fetch_add(1, Ordering::Relaxed);
    }

    pub fn count_replay(&self) {
        self.replays.fetch_add(1, Ordering::Relaxed);
    }

    pub fn count_panic(&self) {
        self.panics.fetch_add(1, Ordering::Relaxed);
    }

    /// `connections` in use and idle in the pool.
    pub fn text(&self, connections: u32, idle: usize) -> String {
        let mut text = String::from("# TYPE daybook_http_responses_total counter\n");
        for (class, count) in self.responses.iter().enumerate().skip(1) {
            let count = count.load(Ordering::Relaxed);
            // Writing into a String cannot fail.
            let _ = writeln!(text, "daybook_http_responses_total{{class=\"{class}xx\"}} {count}");
        }
        for (name, count) in [("replays", &self.replays), ("panics", &self.panics)] {
            let count = count.load(Ordering::Relaxed);
            let _ = writeln!(text, "# TYPE daybook_{name}_total counter\ndaybook_{name}_total {count}");
        }
        let _ = writeln!(
            text,
            "# TYPE daybook_database_connections gauge\ndaybook_database_connections {connections}"
        );
        let _ = writeln!(
            text,
            "# TYPE daybook_database_connections_idle gauge\ndaybook_database_connections_idle {idle}"
        );
        text
    }
}
