//! How long each stage took, as a table at the end.

use std::time::{Duration, Instant};

use crate::failure::Failure;

/// The rows of the table.
#[derive(Debug, Default)]
pub struct Timing {
    rows: Vec<(String, Duration, &'static str)>,
}

impl Timing {
    /// Runs a stage and keeps its time and its end.
    pub fn measure(
        &mut self,
        name: &str,
        stage: impl FnOnce() -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let begun = Instant::now();
        let result = stage();
        let end = if result.is_ok() { "passed" } else { "FAILED" };
        self.rows.push((name.to_owned(), begun.elapsed(), end));
        result
    }

    /// Prints the table.
    pub fn print(&self) {
        println!("\nstage                time  result");
        for (name, time, end) in &self.rows {
            println!("{name:14} {}  {end}", shown(*time));
        }
        println!("{:14} {}", "together", shown(self.rows.iter().map(|(_, time, _)| *time).sum()));
    }
}

/// Minutes, seconds and tenths, in ten columns.
fn shown(time: Duration) -> String {
    let tenths = time.as_millis() / 100;
    format!("{:>3} min {:>2}.{} s", tenths / 600, tenths % 600 / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use super::shown;
    use std::time::Duration;

    #[test]
    fn times_are_minutes_and_seconds() {
        assert_eq!(shown(Duration::from_millis(125_480)), "  2 min  5.4 s");
        assert_eq!(shown(Duration::from_millis(900)), "  0 min  0.9 s");
    }
}
