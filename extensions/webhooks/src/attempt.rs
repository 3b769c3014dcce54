//! The result of an attempt to send a delivery, and what follows from it. Pure.

use std::time::Duration;

use chrono::DateTime;
use rejoin_egress::fetch::{Answer, FetchError};
use reqwest::StatusCode;
use reqwest::header::{DATE, RETRY_AFTER};

/// Maximum delay that a receiver's `Retry-After` causes.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(86_400);
/// Maximum length of the part of a response that an error shows, in characters.
const SHOWN_CHARS: usize = 200;

/// How an attempt went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Delivered,
    /// 410: the receiver wants no more.
    Gone,
    /// To be repeated, not before this time.
    Failed {
        retry_after: Option<Duration>,
    },
}

/// The result of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Attempted {
    pub(crate) verdict: Verdict,
    /// None: no response.
    pub(crate) status: Option<u16>,
    /// For the workspace's admins.
    pub(crate) error: Option<String>,
}

impl Attempted {
    pub(crate) fn of(answered: &Result<Answer, FetchError>) -> Self {
        let answer = match answered {
            Ok(answer) => answer,
            Err(error) => return Self::failed(error.to_string()),
        };
        let verdict = match answer.status {
            status if status.is_success() => Verdict::Delivered,
            StatusCode::GONE => Verdict::Gone,
            _ => Verdict::Failed {
                retry_after: retry_after(answer.header(RETRY_AFTER), answer.header(DATE)),
            },
        };
        let error = match verdict {
            Verdict::Delivered => None,
            Verdict::Gone => Some("the receiver responded 410, so that the webhook was disabled".to_owned()),
            Verdict::Failed { .. } if answer.status.is_redirection() => Some(format!(
                "the receiver responded {}: redirects are not followed; set the webhook's URL to the new address",
                answer.status.as_u16()
            )),
            Verdict::Failed { .. } => Some(refusal(answer)),
        };
        Self {
            verdict,
            status: Some(answer.status.as_u16()),
            error,
        }
    }

    /// An attempt without a response.
    pub(crate) fn failed(error: String) -> Self {
        Self {
            verdict: Verdict::Failed { retry_after: None },
            status: None,
            error: Some(error),
        }
    }
}

/// The beginning of the response, without what a database or a terminal would take amiss.
fn refusal(answer: &Answer) -> String {
    let text = String::from_utf8_lossy(&answer.body);
    let shown: String = text.chars().filter(|c| !c.is_control()).take(SHOWN_CHARS).collect();
    let status = answer.status.as_u16();
    match shown.trim() {
        "" => format!("the receiver responded {status}"),
        shown => format!("the receiver responded {status}: {shown}"),
    }
}

/// Parses `Retry-After`: seconds, or a date, which is compared with the receiver's own clock (RFC 9110, 10.2.3).
fn retry_after(value: &str, date: &str) -> Option<Duration> {
    let delay = match value.trim().parse() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) => {
            let moment = |text: &str| DateTime::parse_from_rfc2822(text.trim()).ok();
            (moment(value)? - moment(date)?).to_std().ok()?
        }
    };
    Some(delay.min(RETRY_AFTER_MAX))
}

#[cfg(test)]
mod tests {
    use reqwest::header::HeaderMap;
    use url::Url;

    use super::*;

    fn answered(status: u16, headers: &[(&'static str, &str)], body: &[u8]) -> Attempted {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.insert(*name, value.parse().expect("a header"));
        }
        Attempted::of(&Ok(Answer {
            url: Url::parse("https://hooks.example/").expect("a URL"),
            status: StatusCode::from_u16(status).expect("a status"),
            headers: map,
            body: body.to_vec(),
        }))
    }

    #[test]
    fn only_success_delivers_and_only_410_disables() {
        assert_eq!(answered(204, &[], b"").verdict, Verdict::Delivered);
        assert_eq!(answered(410, &[], b"").verdict, Verdict::Gone);
        for status in [301, 400, 401, 404, 408, 429, 500, 503] {
            let failed = Verdict::Failed { retry_after: None };
            assert_eq!(answered(status, &[], b"").verdict, failed, "{status}");
        }
        let unreachable = Attempted::of(&Err(FetchError::Unreachable("hooks.example".to_owned())));
        assert_eq!(unreachable.status, None);
        assert_eq!(unreachable.verdict, Verdict::Failed { retry_after: None });
    }

    #[test]
    fn an_error_shows_the_beginning_of_the_response() {
        let shown = answered(500, &[], b"no\0 such\x1b[31m table").error;
        assert_eq!(shown.as_deref(), Some("the receiver responded 500: no such[31m table"));
        let long = answered(500, &[], &[b'x'; 5_000]).error.expect("an error");
        assert!(long.len() < 300, "{}", long.len());
    }

    #[test]
    fn retry_after_is_honoured_up_to_a_day() {
        let after = |headers: &[(&'static str, &str)]| match answered(429, headers, b"").verdict {
            Verdict::Failed { retry_after } => retry_after.map(|delay| delay.as_secs()),
            other => panic!("{other:?}"),
        };
        assert_eq!(after(&[("retry-after", "90")]), Some(90));
        assert_eq!(after(&[("retry-after", "99999999")]), Some(86_400));
        let (date, later) = ("Wed, 21 Oct 2026 07:28:00 GMT", "Wed, 21 Oct 2026 07:30:00 GMT");
        assert_eq!(after(&[("date", date), ("retry-after", later)]), Some(120));
        assert_eq!(after(&[("date", later), ("retry-after", date)]), None);
        assert_eq!(after(&[("retry-after", "soon")]), None);
    }
}
