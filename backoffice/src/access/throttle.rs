//! Wrong passwords slow down: from the fifth on, each failure makes the next try wait longer, up to 15
//! minutes. Never a lock, so nobody can shut somebody else out for good. An address has far more free
//! failures than an account: a whole office may stand behind one.
//!
//! A try counts before the password is looked at, and is taken back when it was right. So a hundred tries
//! at one instant count as a hundred.

use std::net::IpAddr;

use chrono::{DateTime, Duration, Utc};
use sha2::{Digest, Sha256};

/// The failure of an account from which on a next try has to wait.
const ACCOUNT_FAILURES: i32 = 5;
/// The same for a network address.
const ADDRESS_FAILURES: i32 = 200;
const FIRST_WAIT_S: i64 = 5;
const WAIT_MAX_S: i64 = 15 * 60;
pub(super) const FORGOTTEN_AFTER: Duration = Duration::hours(24);

/// A counter's name, the digest of an e-mail address or of a network address, and the failure that makes it wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Subject {
    pub digest: [u8; 32],
    waits_from: i32,
}

/// One counter as stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Count {
    pub failures: i32,
    pub failed_at: DateTime<Utc>,
    pub blocked_until: Option<DateTime<Utc>>,
}

pub(super) fn account_subject(email: &str) -> Subject {
    let digest = Sha256::digest(format!("account:{email}").as_bytes()).into();
    Subject { digest, waits_from: ACCOUNT_FAILURES }
}

/// IPv6 counts by its /64, because one line has them all.
pub(super) fn address_subject(address: IpAddr) -> Subject {
    let network = match address.to_canonical() {
        IpAddr::V4(v4) => v4.to_string(),
        IpAddr::V6(v6) => format!("{:x?}", &v6.segments()[..4]),
    };
    let digest = Sha256::digest(format!("address:{network}").as_bytes()).into();
    Subject { digest, waits_from: ADDRESS_FAILURES }
}

impl Subject {
    /// Counts a try as failed, or says how many seconds it has to wait.
    pub(super) fn counted(&self, count: Count, now: DateTime<Utc>) -> Result<Count, u32> {
        if let Some(until) = count.blocked_until.filter(|until| now < *until) {
            let wait_s = (until - now).num_seconds().saturating_add(1);
            return Err(u32::try_from(wait_s).unwrap_or(1));
        }
        let is_forgotten = now - count.failed_at > FORGOTTEN_AFTER;
        let failures = if is_forgotten { 1 } else { count.failures.saturating_add(1) };
        Ok(Count { failures, failed_at: now, blocked_until: self.blocked_until(failures, now) })
    }

    /// Takes back a try that turned out to be right.
    pub(super) fn uncounted(&self, count: Count) -> Count {
        let failures = count.failures.saturating_sub(1).max(0);
        let blocked_until = count.blocked_until.filter(|_| failures >= self.waits_from);
        Count { failures, blocked_until, ..count }
    }

    fn blocked_until(&self, failures: i32, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let doublings = u32::try_from(failures - self.waits_from).ok()?;
        let wait_s = FIRST_WAIT_S.saturating_mul(2_i64.saturating_pow(doublings)).min(WAIT_MAX_S);
        Some(now + Duration::seconds(wait_s))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_begins_with_the_fifth_failure_doubles_and_stays_at_15_minutes() {
        let mut now = DateTime::UNIX_EPOCH + Duration::days(20_000);
        let mut count = Count::default();
        let mut waits_s = Vec::new();
        for _ in 0..14 {
            count = account_subject("ada@example.org").counted(count, now).unwrap();
            let wait = count.blocked_until.map_or(Duration::zero(), |until| until - now);
            waits_s.push(wait.num_seconds());
            now += wait;
        }
        assert_eq!(waits_s, [0, 0, 0, 0, 5, 10, 20, 40, 80, 160, 320, 640, 900, 900]);
    }

    #[test]
    fn a_try_within_the_wait_is_refused_and_not_counted() {
        let now = DateTime::UNIX_EPOCH + Duration::days(20_000);
        let count = Count { failures: 5, failed_at: now, blocked_until: Some(now + Duration::seconds(5)) };
        let subject = account_subject("ada@example.org");
        assert_eq!(subject.counted(count, now + Duration::seconds(2)), Err(4));
        assert_eq!(subject.counted(count, now + Duration::seconds(5)).unwrap().failures, 6);
        assert_eq!(subject.counted(count, now + Duration::hours(25)).unwrap().failures, 1);
    }

    #[test]
    fn an_address_may_fail_200_times_before_it_waits() {
        let now = DateTime::UNIX_EPOCH + Duration::days(20_000);
        let subject = address_subject("192.0.2.1".parse().unwrap());
        let failed = |failures: i32| Count { failures, failed_at: now, blocked_until: None };
        assert_eq!(subject.counted(failed(198), now).unwrap().blocked_until, None);
        let wait = subject.counted(failed(199), now).unwrap().blocked_until;
        assert_eq!(wait, Some(now + Duration::seconds(5)));
        let right_again = Count { blocked_until: wait, ..failed(200) };
        assert_eq!(subject.uncounted(right_again), failed(199));
    }

    #[test]
    fn addresses_of_one_v6_network_share_a_counter() {
        let subject = |text: &str| address_subject(text.parse().unwrap());
        assert_eq!(subject("2001:db8:1:2::1"), subject("2001:db8:1:2:ffff::9"));
        assert_ne!(subject("2001:db8:1:2::1"), subject("2001:db8:1:3::1"));
        assert_eq!(subject("::ffff:192.0.2.1"), subject("192.0.2.1"));
        assert_ne!(subject("192.0.2.1"), subject("192.0.2.2"));
    }
}
