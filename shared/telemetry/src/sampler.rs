//! Which traces are recorded: the samplers of OpenTelemetry's specification, by their names. Called for each span.
//!
//! The SDK's need a context on the heap for each decision, and log an unknown name; these are a comparison, and an error at the start. Their
//! choice by a ratio is the SDK's: services with the same ratio record the same traces.

use opentelemetry::TraceId;

/// The default: as the parent; without a parent, always.
pub(crate) const DEFAULT: &str = "parentbased_always_on";

/// Of the bits by which a ratio chooses.
const ALL: u64 = 1 << 63;

/// A sampler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sampler {
    /// Whether a span with a parent is recorded if the parent is.
    heeds_parent: bool,
    /// The chosen part of all traces, of [`ALL`].
    share: u64,
}

impl Sampler {
    /// Returns the sampler with this name and argument. Err: what is wrong.
    pub(crate) fn named(name: &str, argument: Option<&str>) -> Result<Self, String> {
        let (heeds_parent, root) = match name.strip_prefix("parentbased_") {
            Some(root) => (true, root),
            None => (false, name),
        };
        let share = match root {
            "always_on" => ALL,
            "always_off" => 0,
            "traceidratio" => share(argument)?,
            _ => {
                return Err(format!(
                    "{name} is not a supported sampler; use always_on, always_off, traceidratio, parentbased_always_on, \
                    parentbased_always_off or parentbased_traceidratio"
                ));
            }
        };
        Ok(Self { heeds_parent, share })
    }

    /// Returns whether a span of this trace is recorded. `parent`: whether its parent is; none: it has no parent.
    pub(crate) fn samples(self, parent: Option<bool>, trace_id: TraceId) -> bool {
        match parent {
            Some(is_sampled) if self.heeds_parent => is_sampled,
            Some(_) | None => low_bits(trace_id) >> 1 < self.share,
        }
    }
}

fn low_bits(trace_id: TraceId) -> u64 {
    let [.., a, b, c, d, e, f, g, h] = trace_id.to_bytes();
    u64::from_be_bytes([a, b, c, d, e, f, g, h])
}

/// Returns the share of a ratio; without one, all.
fn share(argument: Option<&str>) -> Result<u64, String> {
    let Some(text) = argument else {
        return Ok(ALL);
    };
    match text.trim().parse::<f64>() {
        Ok(ratio) if (0.0..=1.0).contains(&ratio) => Ok((ratio * ALL as f64) as u64),
        Ok(_) | Err(_) => Err(format!(
            "OTEL_TRACES_SAMPLER_ARG={text} is not a ratio; use a number from 0 to 1, such as 0.1"
        )),
    }
}

#[cfg(test)]
mod tests {
    use rejoin_types::ids;

    use super::*;
    use crate::context::trace_of_run;

    fn sampler(name: &str, argument: Option<&str>) -> Sampler {
        Sampler::named(name, argument).unwrap()
    }

    #[test]
    fn samplers_with_and_without_a_parent() {
        let trace = trace_of_run(ids::new());
        for (name, alone, below_sampled, below_unsampled) in [
            ("always_on", true, true, true),
            ("always_off", false, false, false),
            ("parentbased_always_on", true, true, false),
            ("parentbased_always_off", false, true, false),
            ("parentbased_traceidratio", true, true, false),
        ] {
            let sampler = sampler(name, None);
            let chosen = [None, Some(true), Some(false)].map(|parent| sampler.samples(parent, trace));
            assert_eq!(chosen, [alone, below_sampled, below_unsampled], "{name}");
        }
    }

    #[test]
    fn a_ratio_chooses_among_traces_of_runs() {
        let tenth = sampler("traceidratio", Some("0.1"));
        let chosen = (0..10_000)
            .filter(|_| tenth.samples(None, trace_of_run(ids::new())))
            .count();
        assert!((800..1_200).contains(&chosen), "{chosen}");
        let none = sampler("traceidratio", Some("0"));
        assert!(!none.samples(None, trace_of_run(ids::new())));
    }

    #[test]
    fn unknown_names_and_ratios_are_refused() {
        assert!(Sampler::named("jaeger_remote", None).is_err());
        assert!(Sampler::named("parentbased_", None).is_err());
        for ratio in ["1.5", "-0.1", "half", "NaN", ""] {
            assert!(Sampler::named("traceidratio", Some(ratio)).is_err(), "{ratio}");
        }
    }
}
