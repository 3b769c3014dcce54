//! All scenarios, in the order in which they are run and shown.

mod fanout;
mod limits;
mod resume;
mod stream;

use crate::scenario::Scenario;

pub fn all() -> Vec<Box<dyn Scenario>> {
    vec![
        Box::new(limits::Limits),
        Box::new(stream::Stream),
        Box::new(fanout::Fanout),
        Box::new(resume::Resume::default()),
    ]
}
