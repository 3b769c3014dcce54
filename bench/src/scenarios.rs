//! All scenarios, in the order in which they are run and shown.

mod append;
mod limits;

use crate::scenario::Scenario;

pub fn all() -> Vec<Box<dyn Scenario>> {
    vec![Box::new(limits::Limits), Box::new(append::Append)]
}
