//! A real PgBouncer in transaction mode, in front of a private server. `scripts/setup-pgbouncer.sh` builds it: Debian 12's own has no prepared
//! statements in this mode. Without it a test fails in CI and is skipped elsewhere.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use rejoin_cli::dev::postgres::PrivatePostgres;
use uuid::Uuid;

use crate::needs;
use crate::ports::free_address;
use crate::waiting::wait_for;

/// Starts a program, and kills it when stdin is closed, as it is when the test's process ends.
const UNTIL_STDIN_ENDS: &str = "\"$@\" & child=$!; cat >/dev/null; kill -KILL $child; wait $child";
const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../.cache/pgbouncer/pgbouncer");

/// A running PgBouncer; killed when dropped, and when the process of the test ends.
pub struct PgBouncer {
    child: Child,
    dir: PathBuf,
    pub address: SocketAddr,
}

impl PgBouncer {
    /// Starts one for these users, with this many server connections for each. It knows no parameter that clients may send, but its own
    /// few. None: it is not installed.
    pub async fn start(postgres: &PrivatePostgres, users: &[&str], server_connections: usize) -> Option<Self> {
        if !PathBuf::from(PROGRAM).is_file() {
            needs::skip("there is no PgBouncer 1.24: scripts/setup-pgbouncer.sh builds it");
            return None;
        }
        let dir = std::env::temp_dir().join(format!("rejoin-pgbouncer-{}", Uuid::now_v7().simple()));
        std::fs::create_dir(&dir).expect("a folder");
        let address = free_address();
        let list: String = users.iter().map(|user| format!("\"{user}\" \"\"\n")).collect();
        std::fs::write(dir.join("users"), list).expect("a file");
        let settings = format!(
            "[databases]\n* = host={} port=5432\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {}\nunix_socket_dir =\n\
             auth_type = trust\nauth_file = {}\npool_mode = transaction\nmax_prepared_statements = 200\n\
             default_pool_size = {server_connections}\nmax_client_conn = 2000\nserver_idle_timeout = 5\n",
            postgres.socket_dir().display(),
            address.port(),
            dir.join("users").display()
        );
        let file = dir.join("settings.ini");
        std::fs::write(&file, settings).expect("a file");
        let mut command = Command::new("sh");
        command.args(["-c", UNTIL_STDIN_ENDS, "sh", PROGRAM]).arg(&file);
        // As the user allowed to access the server's socket; never as root.
        let owner = owner(postgres);
        if std::env::var("USER").as_deref() != Ok(owner.as_str()) {
            command.args(["-u", &owner]);
        }
        let child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("PgBouncer starts");
        let pooler = Self { child, dir, address };
        wait_for("PgBouncer to listen", async || {
            tokio::net::TcpStream::connect(address).await.ok()
        })
        .await;
        Some(pooler)
    }

    /// The URL of the server's database for a user.
    pub fn url(&self, user: &str) -> String {
        self.url_of(user, "rejoin")
    }

    /// The URL of another database of the server.
    pub fn url_of(&self, user: &str, database: &str) -> String {
        format!("postgres://{user}@{}/{database}", self.address)
    }
}

impl Drop for PgBouncer {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

/// Returns the user that a private server runs as.
pub fn owner(postgres: &PrivatePostgres) -> String {
    let output = Command::new("stat")
        .args(["-c", "%U"])
        .arg(postgres.socket_dir())
        .output()
        .expect("stat(1)");
    String::from_utf8(output.stdout).expect("a name").trim().to_owned()
}
