//! Maps values to pixels, with round numbers at the ticks. Used by both kinds of chart.

/// Steps of a round axis, in each power of ten.
const ROUND: [f64; 3] = [1.0, 2.0, 5.0];
/// Approximate number of steps of a linear axis.
const STEPS: f64 = 5.0;
/// Number of decades from which a logarithmic axis labels only powers of ten.
const MANY_DECADES: f64 = 2.5;

/// An axis.
#[derive(Debug, Clone, Copy)]
pub struct Scale {
    low: f64,
    high: f64,
    log: bool,
    /// Pixels of `low` and `high`.
    from: f64,
    to: f64,
}

impl Scale {
    /// Covers all `values`. A linear one begins at 0; a logarithmic one slightly below the smallest positive value, so
    /// that this has a bar, too. Without a positive value it is linear.
    pub fn of(values: impl Iterator<Item = f64>, log: bool, from: f64, to: f64) -> Self {
        let values: Vec<f64> = values.filter(|value| value.is_finite()).collect();
        let highest = values.iter().copied().fold(0.0, f64::max);
        let lowest = values
            .iter()
            .copied()
            .filter(|value| *value > 0.0)
            .fold(f64::INFINITY, f64::min);
        let log = log && lowest.is_finite();
        let (low, high) = if log {
            (round_down(lowest * 0.7), round_up(highest))
        } else {
            let step = step(highest);
            (0.0, (highest / step).ceil().max(1.0) * step)
        };
        Self {
            low,
            high,
            log,
            from,
            to,
        }
    }

    pub fn at(&self, value: f64) -> f64 {
        let value = value.clamp(self.low, self.high);
        let share = if self.log {
            (value / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        self.from + share * (self.to - self.from)
    }

    pub fn is_log(&self) -> bool {
        self.log
    }

    /// Returns the labelled values, in order.
    pub fn ticks(&self) -> Vec<f64> {
        if !self.log {
            let step = step(self.high);
            let count = (self.high / step).round() as u32;
            return (0..=count).map(|n| f64::from(n) * step).collect();
        }
        let decades = (self.high / self.low).log10();
        let mut ticks = Vec::new();
        let (first, last) = (exponent(self.low), exponent(self.high));
        for power in first..=last {
            for round in ROUND {
                let tick = round * 10_f64.powi(power);
                let named = decades < MANY_DECADES || round == 1.0;
                // Powers of ten are not exact below 1.
                if named && tick >= self.low * 0.999 && tick <= self.high * 1.001 {
                    ticks.push(tick);
                }
            }
        }
        ticks
    }
}

fn exponent(value: f64) -> i32 {
    value.log10().floor() as i32
}

/// Returns the step of a linear axis up to `high`.
fn step(high: f64) -> f64 {
    if high <= 0.0 { 1.0 } else { round_up(high / STEPS) }
}

/// Returns the largest round number up to a positive value.
fn round_down(value: f64) -> f64 {
    let power = 10_f64.powi(exponent(value));
    let round = ROUND.iter().rev().find(|round| **round * power <= value * 1.000_001);
    round.unwrap_or(&1.0) * power
}

/// Returns the smallest round number from a positive value on.
fn round_up(value: f64) -> f64 {
    let power = 10_f64.powi(exponent(value));
    let round = ROUND.iter().find(|round| **round * power >= value * 0.999_999);
    round.unwrap_or(&10.0) * power
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scale(values: &[f64], log: bool) -> Scale {
        Scale::of(values.iter().copied(), log, 0.0, 100.0)
    }

    #[test]
    fn a_linear_axis_begins_at_zero_and_ends_round() {
        let scale = scale(&[3.0, 173.0], false);
        assert_eq!(scale.ticks(), [0.0, 50.0, 100.0, 150.0, 200.0]);
        assert_eq!((scale.at(0.0), scale.at(100.0), scale.at(200.0)), (0.0, 50.0, 100.0));
    }

    #[test]
    fn a_logarithmic_axis_leaves_room_below_the_smallest_value() {
        let scale = scale(&[1.0, 90.0], true);
        assert_eq!(scale.ticks(), [0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0]);
        assert!(scale.at(1.0) > 0.0);
        assert!((scale.at(90.0) - scale.at(9.0) - (scale.at(10.0) - scale.at(1.0))).abs() < 1e-9);
    }

    #[test]
    fn many_decades_are_named_once_each() {
        assert_eq!(scale(&[0.5, 4_000.0], true).ticks(), [1.0, 10.0, 100.0, 1_000.0]);
    }

    #[test]
    fn nothing_but_zeros_can_be_drawn() {
        let scale = scale(&[0.0], true);
        assert!(!scale.is_log());
        assert_eq!(scale.at(0.0), 0.0);
        assert_eq!(scale.ticks().last(), Some(&1.0));
    }
}
