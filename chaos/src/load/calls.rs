//! An agent that pays, which must not happen twice, and reads, which may: with tools of the workers, or of users' programs.

use anyhow::Result;
use async_trait::async_trait;
use rand::RngExt as _;

use super::{Actor, Load};
use crate::client::Message;
use crate::tools::{
    LOOK, NODE_FLOW, NODE_LOOK, NODE_PAY, PAY, PROGRAM_FLOW, PROGRAM_LOOK, PROGRAM_PAY, PYTHON_FLOW, PYTHON_LOOK,
    PYTHON_PAY,
};

pub struct Calls {
    name: &'static str,
    weight: usize,
    pay: &'static str,
    look: &'static str,
    flow: Option<&'static str>,
}

impl Calls {
    /// Tools that workers execute.
    pub const OF_WORKERS: Self = Self {
        name: "calls",
        weight: 3,
        pay: PAY,
        look: LOOK,
        flow: None,
    };
    /// Tools that users' programs serve.
    pub const OF_PROGRAMS: Self = Self {
        name: "program",
        weight: 2,
        pay: PROGRAM_PAY,
        look: PROGRAM_LOOK,
        flow: Some(PROGRAM_FLOW),
    };
    /// The same by the package for Python.
    pub const OF_PYTHON: Self = Self {
        name: "python",
        weight: 1,
        pay: PYTHON_PAY,
        look: PYTHON_LOOK,
        flow: Some(PYTHON_FLOW),
    };
    /// The same by the package for TypeScript.
    pub const OF_NODE: Self = Self {
        name: "node",
        weight: 1,
        pay: NODE_PAY,
        look: NODE_LOOK,
        flow: Some(NODE_FLOW),
    };
}

/// Maximum number of calls of a turn.
const CALLS: usize = 4;
/// Maximum duration of a call: time to be killed.
const HOLD_MS: u64 = 400;

#[async_trait]
impl Load for Calls {
    fn name(&self) -> &'static str {
        self.name
    }

    fn weight(&self) -> usize {
        self.weight
    }

    async fn play(&self, actor: &mut Actor) -> Result<()> {
        let mut plan = actor.plan();
        for _ in 0..actor.dice.random_range(1..=CALLS) {
            let tool = match (self.flow, actor.dice.random_range(0..10)) {
                (Some(flow), 0..4) => flow,
                (Some(_), 4..8) | (None, 0..6) => self.pay,
                _ => self.look,
            };
            let (words, hold_ms) = (actor.dice.random_range(0..15), actor.dice.random_range(0..HOLD_MS));
            plan = plan.after_call(words, tool, hold_ms);
        }
        let message = Message {
            with_agent: true,
            ..Message::new(self.name(), &plan)
        };
        actor.turn(message).await;
        Ok(())
    }
}
