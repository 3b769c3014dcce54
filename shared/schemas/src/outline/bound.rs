//! The number of checks of each node, bounded from its leaves up.

use super::Node;

/// Maximum chain of subschemas applied to the same value.
const CHAIN: u64 = 100;
/// Maximum chain of subschemas: each takes stack space at compilation.
const WAY: usize = 1_000;
/// Maximum number of checks of one value, excluding its parts.
const CHECKS_OF_ONE: u64 = 10_000;

/// Rejects schemas that check one value endlessly, in too long a chain or too often, and too long paths.
pub(super) fn bound(nodes: &[Node]) -> Result<(), String> {
    let order = leaves_first(nodes, |node| node.same.clone());
    if order.len() < nodes.len() {
        return Err("the schema refers to itself without end".to_owned());
    }
    let (mut checks, mut chain) = (vec![0_u64; nodes.len()], vec![0_u64; nodes.len()]);
    for index in order {
        let node = &nodes[index];
        let below = node
            .same
            .iter()
            .fold(0_u64, |sum, target| sum.saturating_add(checks[*target]));
        checks[index] = node.own.saturating_add(below.saturating_mul(node.times()));
        chain[index] = 1 + node.same.iter().map(|target| chain[*target]).max().unwrap_or(0);
        if chain[index] > CHAIN {
            return Err(format!(
                "more than {CHAIN} subschemas are applied in a chain to one value"
            ));
        }
        if checks[index] > CHECKS_OF_ONE {
            return Err(format!(
                "one value would be checked more than {CHECKS_OF_ONE} times: the schema's references or alternatives \
                multiply"
            ));
        }
    }
    // No path through the schema is longer than the longest acyclic one plus all nodes that lead into cycles.
    let order = leaves_first(nodes, Node::targets);
    let mut way = vec![0_usize; nodes.len()];
    let in_circles = nodes.len() - order.len();
    for index in order {
        way[index] = 1 + nodes[index]
            .targets()
            .into_iter()
            .map(|target| way[target])
            .max()
            .unwrap_or(0);
    }
    let longest = in_circles + way.into_iter().max().unwrap_or(0);
    if longest > WAY {
        Err(format!(
            "the schema has a chain of {longest} subschemas; the limit is {WAY}"
        ))
    } else {
        Ok(())
    }
}

/// Returns each node after its targets; without those that lead into cycles.
fn leaves_first(nodes: &[Node], targets: impl Fn(&Node) -> Vec<usize>) -> Vec<usize> {
    let mut waits = vec![0_usize; nodes.len()];
    let mut asked_by = vec![Vec::new(); nodes.len()];
    for (index, node) in nodes.iter().enumerate() {
        for target in targets(node) {
            waits[index] += 1;
            asked_by[target].push(index);
        }
    }
    let mut order: Vec<usize> = (0..nodes.len()).filter(|index| waits[*index] == 0).collect();
    let mut next = 0;
    while let Some(index) = order.get(next).copied() {
        next += 1;
        for asker in &asked_by[index] {
            waits[*asker] -= 1;
            if waits[*asker] == 0 {
                order.push(*asker);
            }
        }
    }
    order
}
