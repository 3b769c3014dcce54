//! Positions of a stream, and cursors of live reads, as the protocol writes them.

use chrono::{DateTime, Utc};
use rejoin_sse::start::Start;
use uuid::Uuid;

/// Number of digits of an offset: those of the largest event number, so that texts sort as numbers.
const DIGITS: usize = 20;
/// The interval during which live reads get the same cursor, and which may share one response (section 10.1).
const INTERVAL_S: i64 = 20;
/// The first interval: October 9, 2024 00:00:00 UTC, in seconds since 1970.
const EPOCH_S: i64 = 1_728_432_000;
/// Maximum number of intervals by which a cursor is moved ahead of the one that its client has: an hour.
const JITTER: u128 = 180;

/// Returns the offset after the event of this number.
pub fn of(seq: i64) -> String {
    format!("{seq:0DIGITS$}")
}

/// Parses an offset. None: it is malformed.
pub fn parse(text: &str) -> Option<Start> {
    match text {
        "-1" => Some(Start::Beginning),
        "now" => Some(Start::Now),
        digits if digits.len() == DIGITS && digits.bytes().all(|byte| byte.is_ascii_digit()) => {
            digits.parse().ok().map(Start::After)
        }
        _ => None,
    }
}

/// Returns the cursor of a live read: the number of the interval; greater than the one that the client has, so that no cache sends it the same
/// response again and again.
#[expect(
    clippy::disallowed_methods,
    reason = "a key of caches: small differences between servers do not matter"
)]
pub fn cursor(of_client: Option<&str>) -> String {
    cursor_at(Utc::now(), of_client)
}

fn cursor_at(now: DateTime<Utc>, of_client: Option<&str>) -> String {
    let current = (now.timestamp() - EPOCH_S).div_euclid(INTERVAL_S);
    let has: Option<i64> = of_client.and_then(|cursor| cursor.parse().ok());
    let next = match has {
        Some(has) if has >= current => {
            let jitter = i64::try_from(Uuid::now_v7().as_u128() % JITTER).unwrap_or_default();
            has.saturating_add(1 + jitter)
        }
        Some(_) | None => current,
    };
    next.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_sort_as_their_numbers_and_are_read_back() {
        let offsets: Vec<String> = [0, 9, 10, 123_456, i64::MAX].into_iter().map(of).collect();
        assert!(offsets.is_sorted());
        for (offset, seq) in offsets.iter().zip([0, 9, 10, 123_456, i64::MAX]) {
            assert_eq!(parse(offset), Some(Start::After(seq)));
        }
        assert_eq!(parse("-1"), Some(Start::Beginning));
        assert_eq!(parse("now"), Some(Start::Now));
    }

    #[test]
    fn other_texts_are_no_offsets() {
        for text in [
            "",
            "1",
            "-2",
            "NOW",
            "0000000000000000000x",
            "99999999999999999999",
            "0,1",
            "+0000000000000000001",
        ] {
            assert_eq!(parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_cursor_never_goes_back_nor_stays() {
        let now = DateTime::from_timestamp(EPOCH_S + 1_005, 0).expect("a time");
        assert_eq!(cursor_at(now, None), "50");
        assert_eq!(cursor_at(now, Some("7")), "50");
        assert_eq!(cursor_at(now, Some("not a number")), "50");
        for has in [50, 51, 1_000] {
            let next: i64 = cursor_at(now, Some(&has.to_string())).parse().expect("a number");
            assert!((has + 1..=has + 180).contains(&next), "{has}: {next}");
        }
        assert_eq!(cursor_at(now, Some(&i64::MAX.to_string())), i64::MAX.to_string());
    }
}
