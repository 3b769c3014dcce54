//! The fake Google Calendar as a program, for browser tests: prints its address, and serves until it is stopped.

use std::net::SocketAddr;

use rejoin_tests::google::Google;

#[tokio::main]
#[expect(clippy::print_stdout, reason = "this is how it tells where it is")]
async fn main() {
    let google = Google::listen(SocketAddr::from(([127, 0, 0, 1], 0))).await;
    println!("listening on {}", google.url);
    std::future::pending::<()>().await;
}
