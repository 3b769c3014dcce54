//! Names that change where they lead between the look and the connection (DNS rebinding), told by a name server of the test's own. (What
//! an address may be: `rejoin_egress::ssrf_guard`.)

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use rejoin_data_sources::transport;
use rejoin_egress::fetch::{FetchError, Fetcher};
use rejoin_egress::ssrf_guard::{Hosts, Names};
use reqwest::Url;
use reqwest::header::HeaderMap;
use tokio::net::{TcpListener, UdpSocket};

/// An unassigned public address: nothing is reachable there.
const NOBODYS: Ipv6Addr = Ipv6Addr::new(0x3000, 0, 0, 0, 0, 0, 0, 1);
const HOME: Ipv4Addr = Ipv4Addr::LOCALHOST;
const A: u16 = 1;
const AAAA: u16 = 28;

/// A name server: returns these answers first, and then this machine. Answers are not cacheable (TTL 0).
struct NameServer {
    address: SocketAddr,
    looks: Arc<AtomicUsize>,
}

impl NameServer {
    async fn start(first: Vec<Vec<IpAddr>>) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let address = socket.local_addr().unwrap();
        let looks = Arc::new(AtomicUsize::new(0));
        let counted = looks.clone();
        tokio::spawn(async move {
            let mut query = [0; 512];
            while let Ok((length, from)) = socket.recv_from(&mut query).await {
                let kind = u16::from_be_bytes([query[length - 4], query[length - 3]]);
                // A lookup asks for both kinds, IPv6 last.
                let look = counted.load(Ordering::SeqCst);
                let reply = first.get(look).cloned().unwrap_or_else(|| vec![HOME.into()]);
                if kind == AAAA {
                    counted.fetch_add(1, Ordering::SeqCst);
                }
                let _sent = socket.send_to(&answered(&query[..length], kind, &reply), from).await;
            }
        });
        Self { address, looks }
    }

    fn looks(&self) -> usize {
        self.looks.load(Ordering::SeqCst)
    }
}

/// Returns the response to a query with one question (RFC 1035).
fn answered(query: &[u8], kind: u16, addresses: &[IpAddr]) -> Vec<u8> {
    let records: Vec<Vec<u8>> = addresses
        .iter()
        .filter_map(|address| match (address, kind) {
            (IpAddr::V4(address), A) => Some(address.octets().to_vec()),
            (IpAddr::V6(address), AAAA) => Some(address.octets().to_vec()),
            _ => None,
        })
        .collect();
    let mut message = query.to_vec();
    // An authoritative response.
    message[2..4].copy_from_slice(&[0x84, 0]);
    message[6..8].copy_from_slice(&u16::try_from(records.len()).unwrap().to_be_bytes());
    for data in records {
        // The question's name; its type, class IN, TTL 0.
        message.extend([0xc0, 12]);
        message.extend(kind.to_be_bytes());
        message.extend([0, 1, 0, 0, 0, 0]);
        message.extend(u16::try_from(data.len()).unwrap().to_be_bytes());
        message.extend(data);
    }
    message
}

/// A resolver that asks this server at each lookup, without a cache.
#[derive(Debug)]
struct Asking(SocketAddr);

impl Asking {
    async fn ask(&self, host: &str, kind: u16) -> io::Result<Vec<IpAddr>> {
        let socket = UdpSocket::bind("127.0.0.1:0").await?;
        let mut query = vec![0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        for label in host.split('.') {
            query.push(u8::try_from(label.len()).unwrap());
            query.extend(label.as_bytes());
        }
        query.push(0);
        query.extend(kind.to_be_bytes());
        query.extend([0, 1]);
        socket.send_to(&query, self.0).await?;
        let mut answer = [0; 512];
        let (length, _) = socket.recv_from(&mut answer).await?;
        let records = u16::from_be_bytes([answer[6], answer[7]]);
        let size = if kind == A { 4 } else { 16 };
        let each = 12 + size;
        let begin = length - usize::from(records) * each;
        let data = answer[begin..length].chunks(each).map(|record| &record[12..]);
        Ok(data
            .map(|data| match <[u8; 4]>::try_from(data) {
                Ok(four) => IpAddr::from(four),
                Err(_) => IpAddr::from(<[u8; 16]>::try_from(data).expect("an address")),
            })
            .collect())
    }
}

impl Names for Asking {
    fn lookup<'a>(&'a self, host: &'a str, port: u16) -> BoxFuture<'a, io::Result<Vec<SocketAddr>>> {
        async move {
            let mut found = self.ask(host, A).await?;
            found.extend(self.ask(host, AAAA).await?);
            Ok(found
                .into_iter()
                .map(|address| SocketAddr::new(address, port))
                .collect())
        }
        .boxed()
    }
}

/// A local service that must not be reachable; returns the number of connections.
async fn private_service() -> (u16, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let reached = Arc::new(AtomicUsize::new(0));
    let counted = reached.clone();
    tokio::spawn(async move {
        while listener.accept().await.is_ok() {
            counted.fetch_add(1, Ordering::SeqCst);
        }
    });
    (port, reached)
}

fn asking(server: &NameServer) -> Hosts {
    Hosts::new("A_SETTING", &[]).with_names(Arc::new(Asking(server.address)))
}

#[tokio::test]
async fn a_rebound_name_is_connected_to_the_judged_address() {
    let (port, reached) = private_service().await;
    let server = NameServer::start(vec![vec![NOBODYS.into()]]).await;
    // A search provider's address may have any port.
    let fetcher = Fetcher::new(asking(&server), Duration::from_secs(2));
    let url = Url::parse(&format!("http://rebinding.example:{port}/")).unwrap();
    let error = fetcher
        .service(&url, |client| client.get(url.clone()))
        .await
        .unwrap_err();
    assert!(
        matches!(error, FetchError::Unreachable(_) | FetchError::TooSlow(_)),
        "{error}"
    );
    assert_eq!(
        (server.looks(), reached.load(Ordering::SeqCst)),
        (1, 0),
        "looked up once, and nobody here was reached"
    );
    // The next request resolves and checks again.
    let error = fetcher
        .service(&url, |client| client.get(url.clone()))
        .await
        .unwrap_err();
    assert!(
        matches!(&error, FetchError::Refused(why) if why.contains("private network")),
        "{error}"
    );
    assert_eq!((server.looks(), reached.load(Ordering::SeqCst)), (2, 0));
}

#[tokio::test]
async fn a_page_on_a_local_address_and_its_robots_are_not_read() {
    let server = NameServer::start(vec![]).await;
    let fetcher = Fetcher::new(asking(&server), Duration::from_secs(2));
    let url = Url::parse("http://rebinding.example/").unwrap();
    let error = fetcher.page(&url, &HeaderMap::new(), |_| true).await.unwrap_err();
    assert!(
        matches!(&error, FetchError::Refused(why) if why.contains("private network")),
        "{error}"
    );
}

#[tokio::test]
async fn only_a_names_permitted_addresses_are_asked() {
    let (port, reached) = private_service().await;
    let both = || vec![IpAddr::from(HOME), IpAddr::from(NOBODYS)];
    let server = NameServer::start(vec![both(), both()]).await;
    let hosts = asking(&server);
    let judged = hosts.resolve("rebinding.example", port).await.unwrap();
    assert_eq!(judged, [SocketAddr::new(NOBODYS.into(), port)]);
    let fetcher = Fetcher::new(hosts, Duration::from_secs(2));
    let url = Url::parse(&format!("http://rebinding.example:{port}/")).unwrap();
    fetcher
        .service(&url, |client| client.get(url.clone()))
        .await
        .unwrap_err();
    assert_eq!(reached.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn sources_and_mcp_servers_are_connected_to_judged_addresses() {
    let (port, reached) = private_service().await;
    let server = NameServer::start(vec![vec![NOBODYS.into()]]).await;
    let hosts = asking(&server);
    let connecting = transport::connect(&hosts, "rebinding.example", port, "");
    // Unreachable: it fails immediately, or times out.
    let connected = tokio::time::timeout(Duration::from_secs(2), connecting).await;
    assert!(!matches!(connected, Ok(Ok(_))));
    assert_eq!((server.looks(), reached.load(Ordering::SeqCst)), (1, 0));
    let refused = transport::connect(&hosts, "rebinding.example", port, "")
        .await
        .err()
        .unwrap();
    assert!(refused.to_string().contains("private network"), "{refused}");

    let server = NameServer::start(vec![vec![NOBODYS.into()]]).await;
    let client = rejoin_mcp_client::net::client(&asking(&server)).unwrap();
    let ask = || {
        let request = client.get(format!("http://rebinding.example:{port}/"));
        request.timeout(Duration::from_secs(2)).send()
    };
    ask().await.unwrap_err();
    assert_eq!((server.looks(), reached.load(Ordering::SeqCst)), (1, 0));
    let refused = format!("{:?}", ask().await.unwrap_err());
    assert!(refused.contains("private network"), "{refused}");
    assert_eq!(reached.load(Ordering::SeqCst), 0);
}
