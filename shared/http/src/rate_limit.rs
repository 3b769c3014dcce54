//! Rate limits and their response headers: per key (or, with tokens, per user), per user over all of its keys, per
//! workspace over all of its users. `authentication` counts; the API adds the headers.
//!
//! Each process counts by itself: a load-balanced fleet allows as many times more as it has processes.

use std::num::NonZeroU32;
use std::sync::{Arc, OnceLock};

use axum::extract::Request;
use axum::http::{HeaderName, HeaderValue};
use axum::middleware::Next;
use axum::response::Response;
use governor::clock::{Clock, DefaultClock};
use governor::middleware::StateInformationMiddleware;
use governor::state::keyed::DefaultKeyedStateStore;
use governor::{Quota, RateLimiter};
use uuid::Uuid;

use crate::problem::Problem;
use crate::settings::HttpArgs;

/// Size of a burst, in seconds of the rate.
const BURST_S: u32 = 2;

const LIMIT: HeaderName = HeaderName::from_static("ratelimit-limit");
const REMAINING: HeaderName = HeaderName::from_static("ratelimit-remaining");
const RESET: HeaderName = HeaderName::from_static("ratelimit-reset");

/// The remaining budget of a caller's tightest rate limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateLimit {
    /// Size of a burst, in requests.
    pub limit: u32,
    pub remaining: u32,
    /// Time until the budget is full again, in seconds.
    pub reset_s: u32,
}

/// The identities whose requests are counted together.
#[derive(Debug, Clone, Copy)]
pub struct Counted {
    pub credential: Uuid,
    pub user: Uuid,
    pub workspace: Uuid,
}

struct Rate {
    limiter: Limiter,
    per_s: u32,
    /// Completes the sentence "too many requests of …".
    whose: &'static str,
}

impl Rate {
    fn new(per_s: u32, whose: &'static str) -> Self {
        let second = NonZeroU32::new(per_s).unwrap_or(NonZeroU32::MIN);
        let burst = NonZeroU32::new(per_s.saturating_mul(BURST_S)).unwrap_or(NonZeroU32::MIN);
        Self {
            limiter: RateLimiter::keyed(Quota::per_second(second).allow_burst(burst)).with_middleware(),
            per_s: second.get(),
            whose,
        }
    }

    /// Counts one request. Err: it exceeds the limit, with the delay in seconds.
    fn count(&self, id: Uuid) -> Result<RateLimit, (RateLimit, u64)> {
        let rate = |limit: u32, remaining: u32| RateLimit {
            limit,
            remaining,
            reset_s: (limit - remaining.min(limit)).div_ceil(self.per_s),
        };
        match self.limiter.check_key(&id) {
            Ok(state) => Ok(rate(state.quota().burst_size().get(), state.remaining_burst_capacity())),
            Err(until) => {
                let wait = until.wait_time_from(DefaultClock::default().now());
                Err((rate(until.quota().burst_size().get(), 0), wait.as_secs() + 1))
            }
        }
    }
}

type Limiter = RateLimiter<Uuid, DefaultKeyedStateStore<Uuid>, DefaultClock, StateInformationMiddleware>;

pub struct Rates {
    /// A user's audited changes.
    audited: Limiter,
    audited_per_minute: NonZeroU32,
    of_key: Rate,
    of_user: Rate,
    of_workspace: Rate,
    /// The readers of a shared conversation.
    of_share: Rate,
}

impl Rates {
    pub fn new(args: &HttpArgs) -> Self {
        let audited_per_minute = NonZeroU32::new(args.audited_per_minute).unwrap_or(NonZeroU32::MIN);
        Self {
            audited: RateLimiter::keyed(Quota::per_minute(audited_per_minute)).with_middleware(),
            audited_per_minute,
            of_key: Rate::new(args.rate_per_s, "this key"),
            of_user: Rate::new(args.user_rate_per_s, "this user"),
            of_workspace: Rate::new(args.project_rate_per_s, "this project"),
            of_share: Rate::new(args.share_rate_per_s, "the readers of this link"),
        }
    }

    /// Removes idle entries.
    pub fn tidy(&self) {
        for rate in [&self.of_key, &self.of_user, &self.of_workspace, &self.of_share] {
            rate.limiter.retain_recent();
        }
        self.audited.retain_recent();
    }

    /// Counts one audited change of a user.
    pub fn count_audited(&self, user: Uuid) -> Result<(), Problem> {
        self.audited.check_key(&user).map(drop).map_err(|until| {
            let wait = until.wait_time_from(DefaultClock::default().now());
            let detail = format!(
                "this user has made {} audited changes within a minute, the limit; wait and retry",
                self.audited_per_minute
            );
            Problem::too_many(detail, wait.as_secs() + 1)
        })
    }

    /// Counts one request of a reader of a link, who has no credential. Unknown links are counted as one, with the nil id.
    pub fn count_share(&self, share: Uuid) -> (RateLimit, Result<(), Problem>) {
        match self.of_share.count(share) {
            Ok(rate) => (rate, Ok(())),
            Err((limit, wait_s)) => {
                let detail = format!("too many requests from {}", self.of_share.whose);
                (limit, Err(Problem::too_many(detail, wait_s)))
            }
        }
    }

    /// Counts one request against all of its limits, and returns the tightest.
    pub fn count(&self, counted: Counted) -> (RateLimit, Result<(), Problem>) {
        let rates = [
            (&self.of_key, counted.credential),
            (&self.of_user, counted.user),
            (&self.of_workspace, counted.workspace),
        ];
        let mut tightest: Option<RateLimit> = None;
        for (rate, id) in rates {
            match rate.count(id) {
                Ok(rate) => {
                    // Compared by share: a tenth of a small limit is tighter than a fifth of a large one.
                    let share = |rate: &RateLimit| f64::from(rate.remaining) / f64::from(rate.limit);
                    if tightest.is_none_or(|known| share(&rate) < share(&known)) {
                        tightest = Some(rate);
                    }
                }
                Err((limit, wait_s)) => {
                    let detail = format!("too many requests from {}", rate.whose);
                    return (limit, Err(Problem::too_many(detail, wait_s)));
                }
            }
        }
        (tightest.expect("there are rates"), Ok(()))
    }
}

/// Carries a request's rate limit to its response.
#[derive(Debug, Clone, Default)]
pub struct ReportedLimit(Arc<OnceLock<RateLimit>>);

impl ReportedLimit {
    pub fn report(&self, rate: RateLimit) {
        // A request is counted once; a second count would be the same.
        let _ = self.0.set(rate);
    }
}

/// Adds the rate limit headers to each response.
pub async fn headers(mut request: Request, next: Next) -> Response {
    let reported = ReportedLimit::default();
    request.extensions_mut().insert(reported.clone());
    let mut response = next.run(request).await;
    if let Some(rate) = reported.0.get() {
        let headers = response.headers_mut();
        headers.insert(LIMIT, HeaderValue::from(rate.limit));
        headers.insert(REMAINING, HeaderValue::from(rate.remaining));
        headers.insert(RESET, HeaderValue::from(rate.reset_s));
    }
    response
}

impl std::fmt::Debug for Rates {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rates").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_counts_for_all_limits_and_reports_the_tightest() {
        let mut args = HttpArgs::default();
        (args.rate_per_s, args.user_rate_per_s, args.project_rate_per_s) = (100, 2, 50);
        let rates = Rates::new(&args);
        let [user, workspace] = [(); 2].map(|()| Uuid::now_v7());
        let count = |user: Uuid| {
            rates.count(Counted {
                credential: Uuid::now_v7(),
                user,
                workspace,
            })
        };
        let (rate, counted) = count(user);
        assert!(counted.is_ok());
        assert_eq!((rate.limit, rate.remaining, rate.reset_s), (4, 3, 1));
        for _ in 0..3 {
            assert!(count(user).1.is_ok());
        }
        let (rate, counted) = count(user);
        assert_eq!((rate.limit, rate.remaining), (4, 0));
        let problem = counted.unwrap_err();
        assert_eq!(problem.detail, "too many requests from this user");
        assert!(problem.retry_after_s >= Some(1));
        assert!(count(Uuid::now_v7()).1.is_ok(), "another user of the project goes on");
    }
}
