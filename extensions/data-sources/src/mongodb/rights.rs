//! The privileges of a server's user: MongoDB's second line of defence, since it has no read-only mode. The server
//! resolves roles and their inheritance; each action that is not on the list of reading ones counts as more than
//! reading, on any resource. Called by `mongodb`.

use mongodb::bson::{Bson, Document};

/// Actions of the roles `read`, `readAnyDatabase` and `clusterMonitor` that show data or the server's state and change
/// neither (MongoDB's manual, "Privilege Actions"). `anyAction` is not included.
const READS: [&str; 37] = [
    "changeStream",
    "checkFreeMonitoringStatus",
    "collStats",
    "connPoolStats",
    "dbHash",
    "dbStats",
    "find",
    "getCmdLineOpts",
    "getDatabaseVersion",
    "getDefaultRWConcern",
    "getLog",
    "getParameter",
    "getShardMap",
    "getShardVersion",
    "hostInfo",
    "indexStats",
    "inprog",
    "killCursors",
    "listCachedAndActiveUsers",
    "listCollections",
    "listDatabases",
    "listIndexes",
    "listSearchIndexes",
    "listSessions",
    "listShards",
    "netstat",
    "planCacheRead",
    "queryStatsRead",
    "queryStatsReadTransformed",
    "replSetGetConfig",
    "replSetGetStatus",
    "serverStatus",
    "shardingState",
    "storageDetails",
    "top",
    "useUUID",
    "viewRole",
];
/// Maximum number of actions listed in a refusal.
const NAMED: usize = 5;

/// The result of `connectionStatus` with `showPrivileges`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Rights {
    OnlyReads,
    /// Not authenticated: servers without access control allow everything.
    NoUser,
    /// `insert on shop`, the first of them.
    More(Vec<String>),
    /// The server doesn't report it.
    Unknown,
}

impl Rights {
    /// Returns the objection to the user, if any.
    pub(super) fn fault(&self) -> Option<String> {
        match self {
            Rights::OnlyReads => None,
            Rights::NoUser => {
                Some("the server accepts connections without a user, so the source may be writable".to_owned())
            }
            Rights::More(actions) => Some(format!(
                "its user has more privileges than reading ({})",
                actions.join(", ")
            )),
            Rights::Unknown => Some("the server does not report its user's privileges".to_owned()),
        }
    }

    pub(super) fn of(status: &Document) -> Self {
        Self::read(status).unwrap_or(Rights::Unknown)
    }

    /// None: not MongoDB's format.
    fn read(status: &Document) -> Option<Self> {
        let reported = status.get_document("authInfo").ok()?;
        if reported.get_array("authenticatedUsers").ok()?.is_empty() {
            return Some(Rights::NoUser);
        }
        let mut more: Vec<String> = Vec::new();
        for privilege in reported.get_array("authenticatedUserPrivileges").ok()? {
            let privilege = privilege.as_document()?;
            let place = place(privilege.get_document("resource").ok()?);
            for action in privilege.get_array("actions").ok()? {
                let action = action.as_str()?;
                if !READS.contains(&action) && more.len() < NAMED {
                    more.push(format!("{action} on {place}"));
                }
            }
        }
        Some(if more.is_empty() {
            Rights::OnlyReads
        } else {
            Rights::More(more)
        })
    }
}

/// Describes a resource in words.
fn place(resource: &Document) -> String {
    let is = |name: &str| matches!(resource.get(name), Some(Bson::Boolean(true)));
    let text = |name: &str| resource.get_str(name).unwrap_or_default();
    match (text("db"), text("collection")) {
        _ if is("anyResource") => "everything".to_owned(),
        _ if is("cluster") => "the cluster".to_owned(),
        ("", "") => "all databases".to_owned(),
        ("", collection) => format!("{collection} of all databases"),
        (database, "") => database.to_owned(),
        (database, collection) => format!("{database}.{collection}"),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use mongodb::bson::doc;
    use rejoin_egress::ssrf_guard::Hosts;
    use rejoin_integrations::data_sources::Settings;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};

    use super::*;
    use crate::mongodb::Mongodb;
    use crate::source::{Bounds, Source, SourceError};

    fn status(privileges: Vec<Document>) -> Document {
        doc! { "authInfo": {
            "authenticatedUsers": [{ "user": "reader", "db": "admin" }],
            "authenticatedUserPrivileges": privileges,
        }, "ok": 1.0 }
    }

    fn on(resource: Document, actions: &[&str]) -> Document {
        doc! { "resource": resource, "actions": actions.to_vec() }
    }

    /// A server's report of the role `read` on `shop`.
    fn reader() -> Document {
        let actions = [
            "changeStream",
            "collStats",
            "dbHash",
            "dbStats",
            "find",
            "killCursors",
            "listCollections",
            "listIndexes",
            "planCacheRead",
        ];
        on(doc! { "db": "shop", "collection": "" }, &actions)
    }

    #[test]
    fn only_what_reads_passes_wherever_it_is_granted() {
        let monitor = on(doc! { "cluster": true }, &["serverStatus", "inprog", "listDatabases"]);
        let fine = status(vec![
            reader(),
            monitor,
            on(doc! { "db": "", "collection": "system.js" }, &["find"]),
        ]);
        assert_eq!(Rights::of(&fine), Rights::OnlyReads);
        for action in [
            "insert",
            "update",
            "remove",
            "dropCollection",
            "dropDatabase",
            "createCollection",
            "createIndex",
            "collMod",
            "renameCollectionSameDB",
            "bypassDocumentValidation",
            "convertToCapped",
            "enableProfiler",
            "killop",
            "killAnyCursor",
            "killAnySession",
            "shutdown",
            "setParameter",
            "createUser",
            "grantRole",
            "changeOwnPassword",
            "impersonate",
            "applyOps",
            "internal",
            "anyAction",
            "anActionOfTheNextVersion",
        ] {
            for (resource, place) in [
                (doc! { "db": "shop", "collection": "" }, "shop"),
                (doc! { "db": "shop", "collection": "orders" }, "shop.orders"),
                (doc! { "db": "", "collection": "" }, "all databases"),
                (doc! { "db": "", "collection": "orders" }, "orders of all databases"),
                (doc! { "cluster": true }, "the cluster"),
                (doc! { "anyResource": true }, "everything"),
            ] {
                let reported = status(vec![reader(), on(resource, &["find", action])]);
                assert_eq!(
                    Rights::of(&reported),
                    Rights::More(vec![format!("{action} on {place}")])
                );
            }
        }
    }

    #[test]
    fn what_is_not_declared_is_not_assumed_to_be_reading() {
        for strange in [
            doc! {},
            doc! { "authInfo": {} },
            doc! { "authInfo": { "authenticatedUsers": [{ "user": "x" }] } },
            doc! { "authInfo": { "authenticatedUsers": [{ "user": "x" }], "authenticatedUserPrivileges": "none" } },
            status(vec![doc! { "resource": { "db": "shop" } }]),
            status(vec![doc! { "actions": ["find"] }]),
            status(vec![doc! { "resource": { "db": "shop" }, "actions": [1] }]),
        ] {
            assert_eq!(Rights::of(&strange), Rights::Unknown, "{strange}");
        }
        let no_user = doc! { "authInfo": { "authenticatedUsers": [], "authenticatedUserPrivileges": [] } };
        assert_eq!(Rights::of(&no_user), Rights::NoUser);
        assert_eq!(
            Rights::of(&status(vec![])),
            Rights::OnlyReads,
            "one who may do nothing writes nothing"
        );
    }

    /// A minimal MongoDB server (OP_MSG, and OP_QUERY for the first hello), with the commands needed for testing a
    /// source.
    async fn serve(mut stream: TcpStream, status: Option<Document>) -> Option<()> {
        loop {
            let length = stream.read_i32_le().await.ok()?;
            let id = stream.read_i32_le().await.ok()?;
            let _response_to = stream.read_i32_le().await.ok()?;
            let code = stream.read_i32_le().await.ok()?;
            let mut body = vec![0; usize::try_from(length).ok()?.checked_sub(16)?];
            stream.read_exact(&mut body).await.ok()?;
            const QUERY: i32 = 2004;
            let command = match code {
                QUERY => {
                    let name_ends = body[4..].iter().position(|byte| *byte == 0)? + 5;
                    &body[name_ends + 8..]
                }
                _ => &body[5..],
            };
            let command = Document::from_reader(command).ok()?;
            let name = command.keys().next()?.to_ascii_lowercase();
            let answer = match (name.as_str(), &status) {
                ("hello" | "ismaster", _) => doc! {
                    "ismaster": true, "isWritablePrimary": true, "helloOk": true, "maxBsonObjectSize": 16_777_216, "maxMessageSizeBytes": 48_000_000,
                    "maxWriteBatchSize": 100_000, "logicalSessionTimeoutMinutes": 30, "minWireVersion": 0, "maxWireVersion": 21, "readOnly": false, "ok": 1.0,
                },
                ("buildinfo", _) => doc! { "version": "7.0.0", "ok": 1.0 },
                ("connectionstatus", Some(status)) => status.clone(),
                ("listcollections", _) => {
                    doc! { "cursor": { "id": 0_i64, "ns": "shop.$cmd.listCollections", "firstBatch": [] }, "ok": 1.0 }
                }
                _ => doc! { "ok": 0.0, "code": 59, "codeName": "CommandNotFound", "errmsg": "no such command" },
            };
            let mut document = Vec::new();
            answer.to_writer(&mut document).ok()?;
            let (code, head): (i32, Vec<u8>) = match code {
                // Flags, cursor, first, number of documents.
                QUERY => (1, [&8_i32.to_le_bytes()[..], &[0; 12], &1_i32.to_le_bytes()].concat()),
                _ => (2013, vec![0; 5]),
            };
            let length = i32::try_from(16 + head.len() + document.len()).ok()?;
            for number in [length, 1, id, code] {
                stream.write_i32_le(number).await.ok()?;
            }
            stream.write_all(&head).await.ok()?;
            stream.write_all(&document).await.ok()?;
            stream.flush().await.ok()?;
        }
    }

    async fn source(status: Option<Document>, read_only: bool, accepts_writer: Option<bool>) -> Mongodb {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, status.clone()));
            }
        });
        let settings = Settings {
            host: Some("127.0.0.1".to_owned()),
            port: Some(port),
            database: Some("shop".to_owned()),
            tls: Some(false),
            accepts_writer,
            ..Settings::default()
        };
        let look = Bounds {
            timeout: Duration::from_secs(20),
            max_rows: 100,
            max_bytes: 100_000,
            max_bytes_billed: 0,
        };
        Mongodb::new(
            settings,
            None,
            Hosts::new("A_SETTING", &["*".to_owned()]),
            look,
            read_only,
        )
    }

    #[tokio::test]
    async fn a_read_only_source_refuses_logins_that_may_write() {
        let fine = source(Some(status(vec![reader()])), true, None).await;
        let tested = fine.test().await.unwrap();
        assert_eq!((tested.server.as_str(), tested.warnings.len()), ("MongoDB 7.0.0", 0));
        let writer = || {
            status(vec![
                reader(),
                on(doc! { "db": "shop", "collection": "" }, &["insert", "remove"]),
            ])
        };
        let no_user = doc! { "authInfo": { "authenticatedUsers": [], "authenticatedUserPrivileges": [] }, "ok": 1.0 };
        for (status, words) in [
            (Some(writer()), "insert on shop, remove on shop"),
            (Some(no_user), "without a user"),
            (Some(doc! { "ok": 1.0 }), "without a user"),
            (None, "without a user"),
        ] {
            let refusing = source(status.clone(), true, None).await;
            for refused in [
                refusing.test().await.map(|_| ()),
                refusing.tables(None).await.map(|_| ()),
            ] {
                assert!(
                    matches!(&refused, Err(SourceError::Refused(reported)) if reported.contains(words) && reported.contains("acceptsWriter")),
                    "{refused:?}"
                );
            }
            let accepting = source(status.clone(), true, Some(true)).await;
            let warnings = accepting.test().await.unwrap().warnings;
            assert!(warnings.len() == 1 && warnings[0].contains(words), "{warnings:?}");
            assert!(source(status, false, None).await.test().await.is_ok());
        }
    }
}
