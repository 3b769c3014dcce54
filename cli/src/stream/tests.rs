//! The parser, wherever its input is cut, and a follower of a scripted server.

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;
use crate::dev_instance::Access;

const TEXT: &str = "\u{feff}retry: 2000\n\n:hb\n\nid: 1\ndata: {\"a\":\"ä€😀\"}\n\r\nid:2\r\ndata: x\r\ndata\r\ndata:  y\r\n\r\nevent: e\rdata: z\r\rid: 9\n\n: c\nnonsense\ndata: last\n\n";

fn frame(id: Option<&str>, event: Option<&str>, data: &str) -> Frame {
    Frame {
        id: id.map(str::to_owned),
        event: event.map(str::to_owned),
        data: data.to_owned(),
    }
}

fn expected() -> Vec<Frame> {
    vec![
        frame(Some("1"), None, "{\"a\":\"ä€😀\"}"),
        frame(Some("2"), None, "x\n\n y"),
        frame(None, Some("e"), "z"),
        frame(None, None, "last"),
    ]
}

#[test]
fn frames_are_the_same_wherever_the_bytes_are_cut() {
    let bytes = TEXT.as_bytes();
    for cut in 0..=bytes.len() {
        let mut parser = Parser::default();
        let mut frames = parser.push(&bytes[..cut]).unwrap();
        frames.extend(parser.push(&bytes[cut..]).unwrap());
        assert_eq!(frames, expected(), "cut at {cut}");
    }
    let mut parser = Parser::default();
    let single: Vec<Frame> = bytes.iter().flat_map(|byte| parser.push(&[*byte]).unwrap()).collect();
    assert_eq!(single, expected());
}

#[test]
fn a_frame_that_is_not_finished_is_not_handed_out() {
    let mut parser = Parser::default();
    assert_eq!(parser.push(b"id: 1\ndata: half").unwrap(), []);
    assert_eq!(parser.push(b"\n").unwrap(), []);
    assert_eq!(parser.push(b"\n").unwrap(), [frame(Some("1"), None, "half")]);
}

/// An API that answers consecutive connections with these bytes, and returns the requests.
async fn scripted(answers: Vec<&'static str>) -> (String, tokio::task::JoinHandle<Vec<String>>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let serving = tokio::spawn(async move {
        let mut requests = Vec::new();
        for answer in answers {
            let (mut socket, _) = listener.accept().await.unwrap();
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n") {
                request.push(socket.read_u8().await.unwrap());
            }
            requests.push(String::from_utf8(request).unwrap());
            socket.write_all(answer.as_bytes()).await.unwrap();
        }
        requests
    });
    (url, serving)
}

const STREAM: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";

#[tokio::test]
async fn a_log_is_followed_through_lost_connections_exactly_once() {
    let cut: &str = &format!("{STREAM}:hb\n\nid: 1\ndata: {{\"type\":\"a\"}}\n\nid: 2\ndata: {{\"ty");
    let again: &str = &format!(
        "{STREAM}id: 1\ndata: {{\"type\":\"a\"}}\n\nid: 2\ndata: {{\"type\":\"b\"}}\n\ndata: {{\"type\":\"goaway\"}}\n\n"
    );
    let snapshot: &str =
        &format!("{STREAM}data: {{\"type\":\"snapshot\",\"through\":7}}\n\nid: 8\ndata: {{\"type\":\"c\"}}\n\n");
    let answers = [
        cut,
        again,
        "HTTP/1.1 503 Service Unavailable\r\nretry-after: 0\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
        "HTTP/1.1 410 Gone\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
        snapshot,
        "HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n",
    ];
    let (url, serving) = scripted(answers.iter().map(|answer| &*answer.to_string().leak()).collect()).await;
    let access = Access {
        url,
        api_key: "key".to_owned(),
        workspace_id: None,
    };
    let client = Client::new(access).unwrap();
    let mut follow = Follow::new(client, "/log", Start::After("0".to_owned()), Out::new(true));
    let mut seen = Vec::new();
    while let Some(event) = follow.next().await.unwrap() {
        seen.push((event.seq, event.kind().to_owned()));
    }
    let expected = [
        (Some(1), "a"),
        (Some(2), "b"),
        (None, "goaway"),
        (None, "snapshot"),
        (Some(8), "c"),
    ];
    assert_eq!(seen, expected.map(|(seq, kind)| (seq, kind.to_owned())));
    let requests = serving.await.unwrap();
    let asked: Vec<(&str, Option<&str>)> = requests
        .iter()
        .map(|request| {
            let line = request.lines().next().unwrap();
            let cursor = request.lines().find_map(|line| line.strip_prefix("last-event-id: "));
            (line.split(' ').nth(1).unwrap(), cursor)
        })
        .collect();
    let expected = [
        ("/log?after=0", None),
        ("/log", Some("1")),
        ("/log", Some("2")),
        ("/log", Some("2")),
        ("/log?from=snapshot", None),
        ("/log", Some("8")),
    ];
    assert_eq!(asked, expected);
}

#[tokio::test]
async fn a_log_that_was_taken_back_is_followed_from_a_snapshot() {
    let first = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nx-log-epoch: one\r\nconnection: close\r\n\r\n\
        id: 1\ndata: {\"type\":\"a\"}\n\n";
    let problem = r#"{"code":"cursor_rewound","title":"Bad Request","status":400,"detail":"another history"}"#;
    let refused: &str = &format!(
        "HTTP/1.1 400 Bad Request\r\ncontent-type: application/problem+json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{problem}",
        problem.len()
    );
    let snapshot: &str = &format!("{STREAM}id: 5\ndata: {{\"type\":\"snapshot\",\"through\":5}}\n\n");
    let answers = [
        first,
        refused,
        snapshot,
        "HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n",
    ];
    let (url, serving) = scripted(answers.iter().map(|answer| &*answer.to_string().leak()).collect()).await;
    let access = Access {
        url,
        api_key: "key".to_owned(),
        workspace_id: None,
    };
    let mut follow = Follow::new(Client::new(access).unwrap(), "/log", Start::Beginning, Out::new(true));
    let mut seen = Vec::new();
    while let Some(event) = follow.next().await.unwrap() {
        seen.push((event.seq, event.kind().to_owned()));
    }
    assert_eq!(seen, [(Some(1), "a".to_owned()), (Some(5), "snapshot".to_owned())]);
    let requests = serving.await.unwrap();
    let asked: Vec<&str> = requests
        .iter()
        .map(|request| request.split(' ').nth(1).unwrap())
        .collect();
    assert_eq!(
        asked,
        ["/log", "/log?epoch=one", "/log?from=snapshot", "/log?epoch=one"]
    );
}

#[tokio::test]
async fn a_refusal_ends_it_with_its_exit_code() {
    let (url, _serving) = scripted(vec![
        "HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
    ])
    .await;
    let access = Access {
        url,
        api_key: "key".to_owned(),
        workspace_id: None,
    };
    let client = Client::new(access).unwrap();
    let mut follow = Follow::new(client, "/log", Start::Beginning, Out::new(true));
    let error = follow.next().await.unwrap_err();
    assert_eq!(Exit::of(&error), Exit::NotAuthenticated);
}
