//! Values of labels that are named by users: models, tools, kinds of jobs. Each value is a time series, so their number is limited. Called where
//! such a metric is recorded.

use std::collections::{HashMap, HashSet};
use std::sync::{LazyLock, Mutex, PoisonError};

/// Maximum number of values of one label of one process; further ones are counted together.
const VALUES_MAX: usize = 200;
/// The value that stands for those.
const OTHER: &str = "other";
/// Maximum length of a value, in characters.
const VALUE_MAX_CHARS: usize = 120;

static SEEN: LazyLock<Mutex<HashMap<&'static str, HashSet<String>>>> = LazyLock::new(Mutex::default);

/// Returns the value, or `other` if the label has had too many. `label`: its name, for one limit per name.
pub fn bounded(label: &'static str, value: &str) -> String {
    let mut seen = SEEN.lock().unwrap_or_else(PoisonError::into_inner);
    admit(seen.entry(label).or_default(), value)
}

fn admit(values: &mut HashSet<String>, value: &str) -> String {
    let value: String = value.chars().take(VALUE_MAX_CHARS).collect();
    if values.contains(&value) {
        return value;
    }
    if values.len() >= VALUES_MAX {
        return OTHER.to_owned();
    }
    values.insert(value.clone());
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_beyond_the_limit_are_counted_together() {
        let mut values = HashSet::new();
        for number in 0..VALUES_MAX {
            let value = number.to_string();
            assert_eq!(admit(&mut values, &value), value);
        }
        assert_eq!(admit(&mut values, "one more"), OTHER);
        assert_eq!(admit(&mut values, "7"), "7");
    }
}
