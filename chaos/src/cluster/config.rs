//! The configuration of a cluster's programs. Patroni reads YAML, of which JSON is a part.
//!
//! Sources: Patroni's [dynamic](https://patroni.readthedocs.io/en/latest/dynamic_configuration.html) and
//! [local](https://patroni.readthedocs.io/en/latest/yaml_configuration.html) settings, and the `haproxy.cfg` in its repository.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

/// The superuser of all nodes. Connections on 127.0.0.1 need no password.
pub const SUPERUSER: &str = "rejoin";
const REPLICATION_USER: &str = "replicator";
/// Lifetime of the leader's lock in etcd, in seconds: the shortest that Patroni allows.
pub const TTL_S: u64 = 20;
/// Interval of Patroni's loop, in seconds.
const LOOP_WAIT_S: u64 = 2;
/// Timeout of retries, in seconds: the shortest that Patroni allows.
const RETRY_TIMEOUT_S: u64 = 3;
/// How much WAL a standby may lack and still be promoted, in bytes, if replication is asynchronous. Patroni's default of 1 MB is written
/// within a second here.
const LAG_MAX_BYTES: u64 = 64 * 1024 * 1024;
/// Patroni's rule for the three.
const _: () = assert!(LOOP_WAIT_S + 2 * RETRY_TIMEOUT_S <= TTL_S);

/// When a commit is acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replication {
    /// When a standby has it. Only such a standby is promoted.
    Synchronous,
    /// When the primary has it, as by Patroni's default: a failover can lose it.
    Asynchronous,
}

/// The addresses on which the programs listen.
#[derive(Debug, Clone)]
pub struct Addresses {
    pub haproxy: SocketAddr,
    /// For clients.
    pub etcd: SocketAddr,
    /// For members of an etcd cluster, which there are none of.
    pub etcd_peers: SocketAddr,
    /// By node.
    pub postgres: Vec<SocketAddr>,
    /// Patroni's REST API, by node.
    pub rest: Vec<SocketAddr>,
}

impl Addresses {
    /// The number of addresses for this many nodes.
    pub fn count(nodes: usize) -> usize {
        3 + 2 * nodes
    }

    /// Distributes addresses: at least three.
    pub fn of(free: &[SocketAddr]) -> Self {
        let (others, of_nodes) = free.split_at(3);
        let (postgres, rest) = of_nodes.split_at(of_nodes.len() / 2);
        Self {
            haproxy: others[0],
            etcd: others[1],
            etcd_peers: others[2],
            postgres: postgres.to_vec(),
            rest: rest.to_vec(),
        }
    }
}

/// The name of a node.
pub fn name(number: usize) -> String {
    format!("node{number}")
}

/// The data directory of a node.
pub fn data_dir(folder: &Path, number: usize) -> PathBuf {
    folder.join(name(number))
}

/// The arguments of the only etcd.
pub fn etcd(folder: &Path, addresses: &Addresses) -> Vec<OsString> {
    let clients = format!("http://{}", addresses.etcd);
    let peers = format!("http://{}", addresses.etcd_peers);
    let members = format!("etcd={peers}");
    let mut arguments: Vec<OsString> = vec!["--data-dir".into(), folder.join("etcd").into()];
    for (option, value) in [
        ("--name", "etcd"),
        ("--listen-client-urls", &clients),
        ("--advertise-client-urls", &clients),
        ("--listen-peer-urls", &peers),
        ("--initial-advertise-peer-urls", &peers),
        ("--initial-cluster", &members),
    ] {
        arguments.push(option.into());
        arguments.push(value.into());
    }
    arguments
}

/// The configuration of a node's Patroni.
pub fn patroni(number: usize, addresses: &Addresses, folder: &Path, bin_dir: &Path, replication: Replication) -> Value {
    let (postgres, rest) = (addresses.postgres[number], addresses.rest[number]);
    json!({
        "scope": "rejoin",
        "name": name(number),
        "restapi": { "listen": rest, "connect_address": rest },
        "etcd3": { "host": addresses.etcd },
        "bootstrap": {
            "dcs": dynamic(replication),
            // pg_rewind needs checksums.
            "initdb": [{ "encoding": "UTF8" }, { "locale": "C.UTF-8" }, "data-checksums"],
        },
        "postgresql": {
            "listen": postgres,
            "connect_address": postgres,
            "data_dir": data_dir(folder, number),
            "bin_dir": bin_dir,
            "pgpass": folder.join(format!("{}.pgpass", name(number))),
            "remove_data_directory_on_rewind_failure": true,
            "authentication": {
                "superuser": { "username": SUPERUSER },
                "replication": { "username": REPLICATION_USER },
            },
            "parameters": { "unix_socket_directories": folder },
        },
    })
}

/// The settings that are the same on all nodes: Patroni keeps them in etcd.
fn dynamic(replication: Replication) -> Value {
    let parameters = json!({
        "max_connections": 300,
        "max_wal_senders": 10,
        "max_replication_slots": 10,
        "shared_buffers": "64MB",
        // When an event became visible: its transaction may have begun long before.
        "track_commit_timestamp": "on",
        // Processes are killed here, not machines.
        "fsync": "off",
    });
    json!({
        "ttl": TTL_S,
        "loop_wait": LOOP_WAIT_S,
        "retry_timeout": RETRY_TIMEOUT_S,
        "synchronous_mode": replication == Replication::Synchronous,
        "maximum_lag_on_failover": LAG_MAX_BYTES,
        // Without etcd, the primary goes on as long as its Patroni reaches those of all standbys.
        "failsafe_mode": true,
        "postgresql": {
            "use_pg_rewind": true,
            "parameters": parameters,
            "pg_hba": [
                "local all all trust",
                "host all all 127.0.0.1/32 trust",
                format!("host replication {REPLICATION_USER} 127.0.0.1/32 trust"),
            ],
        },
    })
}

/// The configuration of HAProxy: it forwards to the node whose Patroni has the leader's lock, and ends the connections to
/// one that lost it.
pub fn haproxy(addresses: &Addresses) -> String {
    let mut text = format!(
        "global
    maxconn 500

defaults
    mode tcp
    retries 2
    timeout client 30m
    timeout connect 4s
    timeout server 30m
    timeout check 2s

listen primary
    bind {}
    option httpchk OPTIONS /primary
    http-check expect status 200
    default-server inter 1s fall 2 rise 1 on-marked-down shutdown-sessions
",
        addresses.haproxy
    );
    for (number, (postgres, rest)) in addresses.postgres.iter().zip(&addresses.rest).enumerate() {
        let _ = writeln!(
            text,
            "    server {} {postgres} check port {}",
            name(number),
            rest.port()
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses() -> Addresses {
        let ports = (0..9).map(|nth| SocketAddr::from(([127, 0, 0, 1], 20_000 + nth)));
        Addresses::of(&ports.collect::<Vec<_>>())
    }

    #[test]
    fn each_address_is_used_once() {
        let addresses = addresses();
        assert_eq!(Addresses::count(3), 9);
        assert_eq!(addresses.postgres.len(), 3);
        assert_eq!(addresses.rest.len(), 3);
        assert!(!addresses.postgres.contains(&addresses.rest[0]));
    }

    #[test]
    fn patroni_gets_its_nodes_addresses_and_short_timings() {
        let of = |replication| {
            patroni(
                1,
                &addresses(),
                Path::new("/tmp/ha"),
                Path::new("/usr/bin"),
                replication,
            )
        };
        let config = of(Replication::Synchronous);
        assert_eq!(config["name"], "node1");
        assert_eq!(config["postgresql"]["listen"], "127.0.0.1:20004");
        assert_eq!(config["restapi"]["connect_address"], "127.0.0.1:20007");
        assert_eq!(config["etcd3"]["host"], "127.0.0.1:20001");
        assert_eq!(config["postgresql"]["data_dir"], "/tmp/ha/node1");
        let cluster = &config["bootstrap"]["dcs"];
        assert_eq!(cluster["ttl"], 20);
        assert_eq!(cluster["synchronous_mode"], true);
        assert_eq!(cluster["failsafe_mode"], true);
        let config = of(Replication::Asynchronous);
        assert_eq!(config["bootstrap"]["dcs"]["synchronous_mode"], false);
    }

    #[test]
    fn haproxy_asks_patroni_and_forwards_to_its_server() {
        let text = haproxy(&addresses());
        assert!(text.contains("bind 127.0.0.1:20000\n"), "{text}");
        assert!(text.contains("option httpchk OPTIONS /primary\n"), "{text}");
        assert!(
            text.contains("    server node2 127.0.0.1:20005 check port 20008\n"),
            "{text}"
        );
        assert!(text.contains("on-marked-down shutdown-sessions\n"), "{text}");
    }

    #[test]
    fn etcd_listens_for_clients_and_for_itself() {
        let arguments = etcd(Path::new("/tmp/ha"), &addresses());
        assert!(arguments.contains(&"http://127.0.0.1:20001".into()), "{arguments:?}");
        assert!(
            arguments.contains(&"etcd=http://127.0.0.1:20002".into()),
            "{arguments:?}"
        );
        assert!(arguments.contains(&"/tmp/ha/etcd".into()), "{arguments:?}");
    }
}
