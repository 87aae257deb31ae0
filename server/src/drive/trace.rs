//! Reads a trace of real calls: `TIMESTAMP,ContextTokens,GeneratedTokens`, one call a row, times in UTC.

use std::io::Read;

use chrono::{DateTime, NaiveDateTime, Utc};
use csv::StringRecord;

const COLUMNS: [&str; 3] = ["TIMESTAMP", "ContextTokens", "GeneratedTokens"];
const TIME_FORMAT: &str = "%Y-%m-%d %H:%M:%S%.f";

/// One call as it happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceCall {
    pub occurred_at: DateTime<Utc>,
    pub context_tokens: u64,
    pub generated_tokens: u64,
}

/// Why a trace was not taken; `line` counts from 1 with the header.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    #[error("the trace cannot be read: {0}")]
    Unreadable(#[from] csv::Error),
    #[error("the trace has no column {0}")]
    NoColumn(&'static str),
    #[error("line {line}: {column} is {value:?}, which is not {expected}")]
    BadField { line: u64, column: &'static str, value: String, expected: &'static str },
    #[error("the trace has no calls")]
    Empty,
}

/// Reads all calls, in the file's order.
pub fn read(source: impl Read) -> Result<Vec<TraceCall>, TraceError> {
    let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(source);
    let header = reader.headers()?.clone();
    let places = [place(&header, 0)?, place(&header, 1)?, place(&header, 2)?];
    let mut calls = Vec::new();
    for record in reader.records() {
        calls.push(read_call(&record?, places)?);
    }
    if calls.is_empty() { Err(TraceError::Empty) } else { Ok(calls) }
}

fn place(header: &StringRecord, column: usize) -> Result<usize, TraceError> {
    let name = COLUMNS[column];
    let found =
        header.iter().position(|written| written.trim_start_matches('\u{feff}').eq_ignore_ascii_case(name));
    found.ok_or(TraceError::NoColumn(name))
}

fn read_call(record: &StringRecord, places: [usize; 3]) -> Result<TraceCall, TraceError> {
    let line = record.position().map_or(0, csv::Position::line);
    let field = |column: usize| record.get(places[column]).unwrap_or_default();
    let bad = |column: usize, expected| TraceError::BadField {
        line,
        column: COLUMNS[column],
        value: field(column).to_owned(),
        expected,
    };
    let tokens =
        |column: usize| field(column).parse::<u64>().map_err(|_| bad(column, "a whole number of tokens"));
    let occurred_at = NaiveDateTime::parse_from_str(field(0), TIME_FORMAT)
        .map_err(|_| bad(0, "a time such as 2023-11-16 18:17:03.979"))?
        .and_utc();
    Ok(TraceCall { occurred_at, context_tokens: tokens(1)?, generated_tokens: tokens(2)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_read_in_the_files_order() {
        let text = "TIMESTAMP,ContextTokens,GeneratedTokens\n2024-02-29 23:59:59.1234567,4808,10\n2024-03-01 00:00:00,1,0";
        let calls = read(text.as_bytes()).unwrap();
        assert_eq!(calls.len(), 2);
        assert_eq!((calls[0].context_tokens, calls[0].generated_tokens), (4808, 10));
        assert_eq!(calls[0].occurred_at.to_rfc3339(), "2024-02-29T23:59:59.123456700+00:00");
    }

    #[test]
    fn a_bad_field_is_named_with_its_line() {
        let text =
            "TIMESTAMP,ContextTokens,GeneratedTokens\n2024-03-01 00:00:00,1,0\n2024-03-01 00:00:01,-1,0\n";
        assert_eq!(
            read(text.as_bytes()).unwrap_err().to_string(),
            "line 3: ContextTokens is \"-1\", which is not a whole number of tokens"
        );
        assert!(matches!(
            read("TIMESTAMP,ContextTokens\n".as_bytes()),
            Err(TraceError::NoColumn("GeneratedTokens"))
        ));
        assert!(matches!(
            read("TIMESTAMP,ContextTokens,GeneratedTokens\n".as_bytes()),
            Err(TraceError::Empty)
        ));
    }
}
