//! The minimum cost of any stream server: one thread that writes prepared bytes to every socket at every scheduled
//! moment, without HTTP, logs or waiting. Its cost is the kernel's. Run as a part (see `part`).

use std::io::{BufRead as _, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::load::now_us;
use crate::part;
use crate::producer::{Due, Produced, Schedule};

const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
const BACKLOG: i32 = 4_096;

#[derive(Debug, Serialize, Deserialize)]
pub struct Settings {
    pub readers: usize,
    /// Reader i reads the log at i modulo their number.
    pub logs: usize,
}

pub fn run() -> Result<()> {
    let mut lines = std::io::stdin().lock().lines();
    let settings: Settings = serde_json::from_str(&lines.next().context("no settings")??)?;
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None)?;
    socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into())?;
    socket.listen(BACKLOG)?;
    let listener = TcpListener::from(socket);
    part::say(&listener.local_addr()?)?;
    let mut readers: Vec<TcpStream> = Vec::with_capacity(settings.readers);
    while readers.len() < settings.readers {
        let (mut reader, _) = listener.accept()?;
        reader.set_nodelay(true)?;
        // A request is one segment, whose content is irrelevant.
        let _ = reader.read(&mut [0_u8; 4_096])?;
        reader.write_all(HEAD)?;
        reader.set_nonblocking(true)?;
        readers.push(reader);
    }
    for line in lines {
        let schedule: Schedule = serde_json::from_str(&line?)?;
        part::say(&produce(&mut readers, settings.logs, schedule)?)?;
    }
    Ok(())
}

fn produce(readers: &mut [TcpStream], logs: usize, schedule: Schedule) -> Result<Produced> {
    let mut late_us = 0;
    let run = Uuid::now_v7();
    for n in 0..schedule.events {
        let scheduled_us = schedule.begin_us + (n as f64 * 1e6 / schedule.per_log_per_s / logs as f64) as u64;
        let log = (n % logs as u64) as usize;
        wait_until(scheduled_us);
        late_us = late_us.max(now_us() - scheduled_us);
        let data = Due { log, scheduled_us }.event(run).to_json();
        let frame = format!("id: {}\ndata: {data}\n\n", n / logs as u64 + 1);
        let chunk = format!("{:x}\r\n{frame}\r\n", frame.len());
        for reader in readers.iter_mut().skip(log).step_by(logs) {
            reader.write_all(chunk.as_bytes()).context("a reader does not read")?;
        }
    }
    Ok(Produced {
        late_p99_ms: late_us as f64 / 1_000.0,
        late_max_ms: late_us as f64 / 1_000.0,
        took_ms: now_us().saturating_sub(schedule.begin_us) as f64 / 1_000.0,
    })
}

#[expect(clippy::disallowed_methods, reason = "a thread of its own, without a runtime")]
fn wait_until(moment_us: u64) {
    let now = now_us();
    if moment_us > now {
        std::thread::sleep(Duration::from_micros(moment_us - now));
    }
}
