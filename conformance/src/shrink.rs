//! Makes a failing plan smaller: leaves out one deed after the other, as long as the verdict stays. Called by `suite`.

use crate::plan::Plan;

/// Maximum number of plans that are tried.
const MAX_TRIES: usize = 8;

/// A search for the smallest plan.
#[derive(Debug)]
pub struct Shrinking {
    smallest: Plan,
    /// The deed that is left out next.
    at: usize,
    tries: usize,
}

impl Shrinking {
    pub fn new(plan: Plan) -> Self {
        Self {
            smallest: plan,
            at: 0,
            tries: 0,
        }
    }

    /// The next plan to try. None: there is none.
    pub fn candidate(&self) -> Option<Plan> {
        if self.tries >= MAX_TRIES || self.at >= self.smallest.actions.len() || self.smallest.actions.len() < 2 {
            return None;
        }
        let mut smaller = self.smallest.clone();
        smaller.actions.remove(self.at);
        Some(smaller)
    }

    /// Notes whether the candidate has failed alike.
    pub fn tried(&mut self, candidate: Plan, fails_alike: bool) {
        self.tries += 1;
        if fails_alike {
            self.smallest = candidate;
        } else {
            self.at += 1;
        }
    }

    /// The smallest plan that was found, if it is smaller than the first one.
    pub fn found(self, first: &Plan) -> Option<Plan> {
        (self.smallest.actions.len() < first.actions.len()).then_some(self.smallest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gate::Point;
    use crate::plan::Deed;
    use crate::script::Script;
    use crate::target::Which;

    fn plan(counts: &[usize]) -> Plan {
        let quiet = Plan::quiet(Script::words("a", 20, 0));
        counts.iter().fold(quiet, |plan, count| {
            let which = Which::All;
            plan.at(Point::Words { step: 0, count: *count }, Deed::Restart { which })
        })
    }

    fn shrunk(counts: &[usize], fails: impl Fn(&Plan) -> bool) -> Option<usize> {
        let first = plan(counts);
        let mut shrinking = Shrinking::new(first.clone());
        while let Some(candidate) = shrinking.candidate() {
            let fails_alike = fails(&candidate);
            shrinking.tried(candidate, fails_alike);
        }
        shrinking.found(&first).map(|plan| plan.actions.len())
    }

    fn has(plan: &Plan, count: usize) -> bool {
        let at = crate::plan::Moment::At(Point::Words { step: 0, count });
        plan.actions.iter().any(|action| action.at == at)
    }

    #[test]
    fn deeds_that_do_not_matter_are_left_out() {
        assert_eq!(shrunk(&[3, 5, 9], |plan| has(plan, 5)), Some(1));
        assert_eq!(shrunk(&[3, 5, 9], |plan| has(plan, 3) && has(plan, 9)), Some(2));
        assert_eq!(
            shrunk(&[3, 5], |plan| plan.actions.len() == 2),
            None,
            "all of them matter"
        );
    }
}
