//! Enums of states, kinds and roles that have a text each: in columns, on the wire, in settings.
//!
//! Invariant: a value's text is written once, beside its variant; every conversion uses it.

use std::error::Error;
use std::fmt;

/// Maximum length of a refused text in its error, in characters.
const SHOWN_CHARS: usize = 40;

/// The error of parsing a text that no value of the enum has. Lists the allowed texts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownText {
    text: String,
    allowed: &'static [&'static str],
}

impl UnknownText {
    /// Called by the code that [`text_enum!`](crate::text_enum!) writes.
    pub fn new(text: &str, allowed: &'static [&'static str]) -> Self {
        Self {
            text: text.chars().take(SHOWN_CHARS).collect(),
            allowed,
        }
    }
}

impl fmt::Display for UnknownText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is not one of: {}", self.text, self.allowed.join(", "))
    }
}

impl Error for UnknownText {}

/// Defines an enum whose values have texts.
///
/// ```ignore
/// rejoin_types::text_enum! {
///     /// The state of a task.
///     #[derive(Default)]
///     pub enum State {
///         #[default]
///         Queued = "queued",
///         /// In older rows with a space.
///         InProgress = "in_progress" | "in progress",
///     }
/// }
///
/// assert_eq!(State::InProgress.as_str(), "in_progress");
/// assert_eq!("in progress".parse(), Ok(State::InProgress));
/// ```
///
/// The texts after `|` are accepted, never written. The enum has `ALL`, `TEXTS`, `as_str`, `Display`, `FromStr`, `Serialize` and
/// `Deserialize`, besides `Debug`, `Clone`, `Copy`, `PartialEq`, `Eq` and `Hash`; other attributes are kept. The crate
/// that uses it depends on serde. To read a column of this type, parse its text.
#[macro_export]
macro_rules! text_enum {
    (
        $(#[$attribute:meta])*
        $visibility:vis enum $name:ident {
            $(
                $(#[$variant_attribute:meta])*
                $variant:ident = $text:literal $(| $alias:literal)*
            ),+ $(,)?
        }
    ) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, ::serde::Serialize, ::serde::Deserialize)]
        $(#[$attribute])*
        $visibility enum $name {
            $(
                $(#[$variant_attribute])*
                #[serde(rename = $text $(, alias = $alias)*)]
                $variant,
            )+
        }

        impl $name {
            /// All values, in the order of their definition.
            pub const ALL: [Self; [$($text),+].len()] = [$(Self::$variant),+];

            /// The texts of all values, in the same order.
            pub const TEXTS: [&'static str; [$($text),+].len()] = [$($text),+];

            /// Its text.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)+
                }
            }
        }

        impl ::std::fmt::Display for $name {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl ::std::str::FromStr for $name {
            type Err = $crate::text_enum::UnknownText;

            fn from_str(text: &str) -> ::std::result::Result<Self, Self::Err> {
                match text {
                    $($text $(| $alias)* => Ok(Self::$variant),)+
                    _ => Err($crate::text_enum::UnknownText::new(text, &Self::TEXTS)),
                }
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    crate::text_enum! {
        /// A state with a default and an older spelling.
        #[derive(Default, PartialOrd, Ord)]
        enum State {
            #[default]
            Queued = "queued",
            /// Older rows have a space.
            InProgress = "in_progress" | "in progress",
            Done = "done",
        }
    }

    #[test]
    fn each_conversion_uses_the_same_text() {
        assert_eq!(State::ALL, [State::Queued, State::InProgress, State::Done]);
        assert_eq!(State::TEXTS, State::ALL.map(State::as_str));
        for state in State::ALL {
            assert_eq!(state.as_str().parse(), Ok(state));
            assert_eq!(state.to_string(), state.as_str());
            assert_eq!(json!(state), json!(state.as_str()));
            assert_eq!(serde_json::from_value::<State>(json!(state)).unwrap(), state);
        }
        assert_eq!(State::InProgress.as_str(), "in_progress");
        assert_eq!(
            format!("{:>8}|{:<8}|", State::Queued, State::Done),
            "  queued|done    |"
        );
    }

    #[test]
    fn aliases_are_read_and_never_written() {
        assert_eq!("in progress".parse(), Ok(State::InProgress));
        assert_eq!(
            serde_json::from_value::<State>(json!("in progress")).unwrap(),
            State::InProgress
        );
    }

    #[test]
    fn an_unknown_text_is_refused_with_the_allowed_ones() {
        let error = |text: &str| text.parse::<State>().unwrap_err().to_string();
        assert_eq!(error("late"), "\"late\" is not one of: queued, in_progress, done");
        assert_eq!(error("Queued"), "\"Queued\" is not one of: queued, in_progress, done");
        assert!(error(&"x".repeat(1_000)).starts_with(&format!("\"{}\" is", "x".repeat(40))));
        assert!(serde_json::from_value::<State>(json!("late")).is_err());
    }

    #[test]
    fn other_attributes_are_kept() {
        assert_eq!(State::default(), State::Queued);
        assert!(State::Queued < State::Done);
    }
}
