//! Cursors belong to the list that made them: one of another list, another account or another filter is refused, because
//! it would name a place that this list does not have.
//!
//! A cursor begins with eight digits of a digest over list, account and filter; the place within the list follows. It
//! keeps out mistakes, no more: whoever may read the list may read all of it.

use std::fmt::Write;

use sha2::{Digest, Sha256};

use crate::ids::AccountId;
use crate::service::{BadCursor, EntryQuery, Page, PageRequest};

const DIGITS: usize = 8;

/// What a list's cursors begin with.
pub(crate) struct Mark(String);

impl Mark {
    /// `filter` is the list's filter in one fixed way of writing it.
    pub(crate) fn of(list: &str, account: Option<AccountId>, filter: &str) -> Mark {
        let account = account.map(|account| account.to_string()).unwrap_or_default();
        let digest = Sha256::digest(format!("{list}\n{account}\n{filter}").as_bytes());
        let mut text = String::with_capacity(DIGITS);
        for byte in digest.iter().take(DIGITS / 2) {
            // Writing to a string does not fail.
            let _ = write!(text, "{byte:02x}");
        }
        Mark(text)
    }

    /// The place that a cursor of this list names.
    pub(crate) fn open(&self, request: &PageRequest) -> Result<PageRequest, BadCursor> {
        let place = match request.cursor.as_deref() {
            Some(cursor) => Some(cursor.strip_prefix(self.0.as_str()).ok_or(BadCursor)?.to_owned()),
            None => None,
        };
        Ok(PageRequest { cursor: place, limit: request.limit })
    }

    /// The page with cursors that lead back to this list alone.
    pub(crate) fn close<T>(&self, page: Page<T>) -> Page<T> {
        let marked = |place: Option<String>| place.map(|place| format!("{}{place}", self.0));
        Page { rows: page.rows, next: marked(page.next), previous: marked(page.previous) }
    }
}

/// A history's filter, whatever the order of its kinds.
pub(crate) fn written(query: &EntryQuery) -> String {
    let EntryQuery {
        kinds,
        from,
        to,
        occurred_from,
        occurred_to,
        member,
        model,
        key_ref,
        request_ref,
        min,
        max,
    } = query;
    let mut kinds: Vec<i16> = kinds.iter().map(|kind| kind.code()).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let times = [from, to, occurred_from, occurred_to].map(|at| at.map(|at| at.timestamp_micros()));
    format!("{kinds:?} {times:?} {member:?} {model:?} {key_ref:?} {request_ref:?} {min:?} {max:?}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::Kind;

    #[test]
    fn a_cursor_opens_its_own_list_and_no_other() {
        let account: AccountId = "0190a000-0000-7000-8000-000000000001".parse().unwrap();
        let other: AccountId = "0190a000-0000-7000-8000-000000000002".parse().unwrap();
        let mark = Mark::of("entries", Some(account), "");
        let page = mark.close(Page { rows: vec![1], next: Some("n5".to_owned()), previous: None });
        let request = PageRequest { cursor: page.next, limit: 7 };
        let place = PageRequest { cursor: Some("n5".to_owned()), limit: 7 };
        assert_eq!(mark.open(&request).unwrap(), place);
        for foreign in [
            Mark::of("grants", Some(account), ""),
            Mark::of("entries", Some(other), ""),
            Mark::of("entries", Some(account), "CONSUME"),
        ] {
            assert!(foreign.open(&request).is_err());
        }
        assert!(mark.open(&place).is_err(), "a place alone is no cursor");
        assert!(mark.open(&PageRequest::default()).is_ok());
    }

    #[test]
    fn a_filter_is_written_in_one_way() {
        let query = |kinds: &[Kind]| EntryQuery { kinds: kinds.to_vec(), ..EntryQuery::default() };
        assert_eq!(
            written(&query(&[Kind::Settle, Kind::Consume])),
            written(&query(&[Kind::Consume, Kind::Settle, Kind::Consume]))
        );
        assert_ne!(written(&query(&[Kind::Settle])), written(&query(&[])));
    }
}
