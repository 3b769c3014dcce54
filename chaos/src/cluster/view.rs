//! What Patroni's [REST API](https://patroni.readthedocs.io/en/latest/rest_api.html) reports about a node, and whether the cluster is whole.

use std::fmt;

use serde_json::Value;

use super::Replication;

/// Status and body of a response. None: there was none.
type Answer = Option<(u16, Value)>;

/// The state of a node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct View {
    /// It has the leader's lock.
    is_leader: bool,
    /// It has reached etcd lately, and etcd knows a leader.
    is_current: bool,
    /// It is a standby that streams from the leader.
    is_streaming: bool,
    is_synchronous: bool,
    /// The timeline of its WAL. None: unknown.
    timeline: Option<i64>,
}

impl View {
    /// By the responses of its health checks. `since_s`: since when it must have reached etcd [seconds since 1970].
    pub(super) fn of(primary: Answer, streaming: Answer, synchronous: Answer, since_s: i64) -> Self {
        let is_good = |answer: &Answer| matches!(answer, Some((200, _)));
        let is_current = |body: &Value| {
            body["dcs_last_seen"].as_i64().is_some_and(|seen_s| seen_s >= since_s)
                && body["failsafe_mode_is_active"] != true
                && body["cluster_unlocked"] != true
        };
        let timeline = primary.as_ref().and_then(|(_, body)| body["timeline"].as_i64());
        Self {
            timeline,
            is_leader: is_good(&primary),
            is_streaming: is_good(&streaming),
            is_synchronous: is_good(&synchronous),
            is_current: primary.is_some_and(|(_, body)| is_current(&body)),
        }
    }
}

impl fmt::Display for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let role = match (self.is_leader, self.is_synchronous, self.is_streaming) {
            (true, _, _) => "the leader",
            (false, true, true) => "a synchronous standby",
            (false, true, false) => "a synchronous standby that does not stream",
            (false, false, true) => "an asynchronous standby",
            (false, false, false) => "neither leader nor streaming standby",
        };
        let etcd = if self.is_current {
            ""
        } else {
            ", without news from etcd"
        };
        write!(f, "{role}{etcd}")
    }
}

/// Whether one node is the leader and has reached etcd, and all others stream from it; with synchronous replication, one of them synchronously.
pub(super) fn is_settled(views: &[View], replication: Replication) -> bool {
    let (leaders, standbys): (Vec<View>, Vec<View>) = views.iter().partition(|view| view.is_leader);
    let [leader] = leaders.as_slice() else {
        return false;
    };
    // A primary that returns streams for a moment from its old timeline, before Patroni rewinds it: with the leader lost then, it would be useless.
    leader.is_current
        && standbys
            .iter()
            .all(|standby| standby.is_streaming && standby.timeline == leader.timeline)
        && (replication == Replication::Asynchronous || standbys.iter().any(|standby| standby.is_synchronous))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const SINCE_S: i64 = 100;

    fn is_settled_in_step(views: &[View]) -> bool {
        is_settled(views, Replication::Synchronous)
    }

    fn view(statuses: [u16; 3], body: Value) -> View {
        let [primary, streaming, synchronous] = statuses.map(|status| Some((status, Value::Null)));
        let primary = primary.map(|(status, _)| (status, body));
        View::of(primary, streaming, synchronous, SINCE_S)
    }

    fn seen(at_s: i64) -> Value {
        json!({ "dcs_last_seen": at_s })
    }

    #[test]
    fn a_cluster_is_whole_with_one_leader_and_its_standbys() {
        let leader = view([200, 503, 503], seen(101));
        let synchronous = view([503, 200, 200], seen(101));
        let other = view([503, 200, 503], seen(101));
        assert!(is_settled_in_step(&[synchronous, leader, other]));
        assert!(!is_settled_in_step(&[synchronous, other, other]), "no leader");
        assert!(!is_settled_in_step(&[leader, leader, synchronous]), "two leaders");
        assert!(!is_settled_in_step(&[leader, other, other]), "no synchronous standby");
        assert!(is_settled(&[leader, other, other], Replication::Asynchronous));
        let lost = View::of(None, None, None, SINCE_S);
        assert!(!is_settled_in_step(&[leader, synchronous, lost]), "a node is lost");
    }

    #[test]
    fn a_standby_on_an_old_timeline_is_not_enough() {
        let of = |statuses, timeline: i64| view(statuses, json!({ "dcs_last_seen": 101, "timeline": timeline }));
        let (leader, synchronous) = (of([200, 503, 503], 2), of([503, 200, 200], 2));
        assert!(is_settled_in_step(&[leader, synchronous, of([503, 200, 503], 2)]));
        assert!(!is_settled_in_step(&[leader, synchronous, of([503, 200, 503], 1)]));
    }

    #[test]
    fn a_leader_that_does_not_reach_etcd_is_not_enough() {
        let synchronous = view([503, 200, 200], seen(101));
        let without_etcd = json!({ "dcs_last_seen": 101, "failsafe_mode_is_active": true });
        for body in [seen(99), without_etcd, Value::Null] {
            assert!(!is_settled_in_step(&[view([200, 503, 503], body), synchronous]));
        }
    }
}
