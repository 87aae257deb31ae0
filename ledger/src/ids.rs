//! Typed ids. All are UUIDv7, so that rows of one time lie together; the instant is an argument.

use std::fmt;
use std::str::FromStr;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use uuid::{NoContext, Timestamp, Uuid};

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub Uuid);

        impl $name {
            /// A new id that sorts by `at`.
            pub fn new(at: DateTime<Utc>) -> $name {
                $name(fresh(at))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }

        impl FromStr for $name {
            type Err = uuid::Error;

            fn from_str(text: &str) -> Result<$name, uuid::Error> {
                Uuid::parse_str(text).map($name)
            }
        }
    };
}

id!(/// One customer's credit account.
    AccountId);
id!(/// Credits that were put in.
    GrantId);
id!(/// A pre-authorisation.
    HoldId);

/// The number of an entry in its account's journal: 1, 2, 3 … without gaps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Seq(pub i64);

impl Seq {
    #[must_use]
    pub fn next(self) -> Seq {
        Seq(self.0.saturating_add(1))
    }
}

impl fmt::Display for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A UUIDv7 of the instant `at`, with its fraction of a millisecond in the twelve bits after the version (RFC 9562, method 3), so
/// that ids of one millisecond sort by time as well. Before 1970 counts as 1970.
pub fn fresh(at: DateTime<Utc>) -> Uuid {
    let seconds = u64::try_from(at.timestamp()).unwrap_or(0);
    let nanos = at.timestamp_subsec_nanos();
    let mut bytes = Uuid::new_v7(Timestamp::from_unix(NoContext, seconds, nanos)).into_bytes();
    let [.., high, low] = (nanos % 1_000_000 * 4096 / 1_000_000).to_be_bytes();
    bytes[6] = 0x70 | high;
    bytes[7] = low;
    Uuid::from_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_sort_by_time_within_a_millisecond_too() {
        let second = DateTime::from_timestamp(1_800_000_000, 0).unwrap();
        let at = |nanos: i64| fresh(second + chrono::Duration::nanoseconds(nanos));
        for pair in [0, 300, 999_999, 1_000_000, 1_000_300, 999_999_700].windows(2) {
            assert!(at(pair[0]) < at(pair[1]), "{pair:?}");
        }
        let id = at(999_999);
        assert_eq!((id.get_version_num(), id.get_variant()), (7, uuid::Variant::RFC4122));
        assert_eq!(id.get_timestamp().unwrap().to_unix().0, 1_800_000_000);
    }
}
