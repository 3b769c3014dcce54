//! All scenarios, in the order in which they are run and shown.

mod limits;
mod queue;

use crate::scenario::Scenario;

pub fn all() -> Vec<Box<dyn Scenario>> {
    vec![Box::new(limits::Limits), Box::new(queue::Queue)]
}
