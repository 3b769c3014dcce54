//! All scenarios, in the order in which they are run and shown.

mod agents;
mod append;
mod bloat;
mod burst;
mod cells;
mod compaction;
mod dialects;
mod fanout;
mod fleet;
mod graph;
mod growth;
mod idle;
mod limits;
mod prewarm;
mod queue;
mod reads;
mod recovery;
mod remote;
mod resume;
mod scale;
mod search;
mod steps;
mod stream;
mod tasks;
mod ttft;
mod turn;

use crate::scenario::Scenario;

pub fn all() -> Vec<Box<dyn Scenario>> {
    vec![
        Box::new(limits::Limits),
        Box::new(append::Append),
        Box::new(bloat::Bloat),
        Box::new(compaction::Compaction),
        Box::new(stream::Stream),
        Box::new(fanout::Fanout),
        Box::new(fleet::Fleet),
        Box::new(cells::Cells),
        Box::new(dialects::Dialects),
        Box::new(resume::Resume::default()),
        Box::new(queue::Queue),
        Box::new(ttft::Ttft),
        Box::new(burst::Burst),
        Box::new(turn::Turn),
        Box::new(recovery::Recovery),
        Box::new(prewarm::Prewarm),
        Box::new(steps::Steps),
        Box::new(remote::Remote),
        Box::new(agents::Agents),
        Box::new(tasks::Tasks),
        Box::new(scale::Scale::default()),
        Box::new(growth::Growth),
        Box::new(reads::Reads),
        Box::new(graph::Graph::Usual),
        Box::new(graph::Graph::Million),
        Box::new(search::Search),
        Box::new(idle::Idle),
    ]
}
