//! Load and latency. Arrivals follow an open-loop schedule, and a latency counts from the scheduled moment: a stalled
//! server is charged for everything that should have happened meanwhile.

use std::time::Duration;

use hdrhistogram::Histogram;
use tokio::time::Instant;

/// CLOCK_MONOTONIC in µs: one clock for all processes of the machine.
#[expect(unsafe_code, reason = "clock_gettime has no safe form in libc; it writes to a local")]
pub fn now_us() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is ours and outlives the call.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec.unsigned_abs() * 1_000_000 + time.tv_nsec.unsigned_abs() / 1_000
}

/// Maximum latency, in µs; longer ones count as this.
const LONGEST_US: u64 = 600 * 1_000_000;

/// Latencies in µs, three significant digits.
#[derive(Debug, Clone)]
pub struct Latencies(Histogram<u64>);

impl Default for Latencies {
    fn default() -> Self {
        Self(Histogram::new_with_bounds(1, LONGEST_US, 3).expect("3 digits are allowed"))
    }
}

impl Latencies {
    /// Records the time from the scheduled moment (µs of [`now_us`]) until now.
    pub fn since(&mut self, scheduled_us: u64) {
        self.record(now_us().saturating_sub(scheduled_us));
    }

    pub fn record(&mut self, micros: u64) {
        self.0.saturating_record(micros);
    }

    pub fn merge(&mut self, other: &Self) {
        // Same bounds and digits: can't fail.
        let _ = self.0.add(&other.0);
    }

    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// Returns a quantile (0.5, 0.99 …) in milliseconds.
    pub fn quantile_ms(&self, share: f64) -> f64 {
        self.0.value_at_quantile(share) as f64 / 1_000.0
    }

    pub fn max_ms(&self) -> f64 {
        self.0.max() as f64 / 1_000.0
    }
}

/// A schedule with a fixed rate.
#[derive(Debug, Clone, Copy)]
pub struct Schedule {
    began: Instant,
    began_us: u64,
    every: Duration,
}

impl Schedule {
    /// `per_s` moments per second, the first after `offset`.
    pub fn new(per_s: f64, offset: Duration) -> Self {
        Self {
            began: Instant::now() + offset,
            began_us: now_us() + u64::try_from(offset.as_micros()).unwrap_or(u64::MAX),
            every: Duration::from_secs_f64(1.0 / per_s),
        }
    }

    /// Waits for the `n`th moment (unless it has passed) and returns it, in µs of [`now_us`]. Accurate to some 200 µs,
    /// on a separate thread: the runtime's clock has millisecond resolution.
    #[expect(
        clippy::disallowed_methods,
        reason = "it is called from threads that do nothing else"
    )]
    pub fn reached_blocking(&self, n: u32) -> u64 {
        let after = self.every * n;
        let early = (self.began + after).saturating_duration_since(Instant::now());
        if !early.is_zero() {
            // Not for each of 50,000 events per second.
            std::thread::sleep(early.max(Duration::from_micros(200)));
        }
        self.began_us + u64::try_from(after.as_micros()).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_latency_has_three_digits() {
        let mut latencies = Latencies::default();
        for ms in 1..=1_000_u64 {
            latencies.record(ms * 1_000);
        }
        assert!((latencies.quantile_ms(0.5) - 500.0).abs() < 1.0);
        assert!((latencies.quantile_ms(0.99) - 990.0).abs() < 1.0);
        latencies.record(u64::MAX);
        assert!(latencies.max_ms() >= 600_000.0);
    }
}
