//! nginx with nchan: publishers and subscribers over HTTP, messages in memory.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::{Context as _, Result};

use super::Unpacked;
use crate::process::{Process, Usage, tree_usage, wait_until_ready};

const NAME: &str = "nchan";
const PACKAGES: [&str; 2] = ["nginx", "libnginx-mod-nchan"];
const NGINX: &str = "usr/sbin/nginx";
const MODULE: &str = "usr/lib/nginx/modules/ngx_nchan_module.so";

const HOME: &str = "/var/lib/nginx";

pub const NOTE: &str = "nchan: a module of nginx in C, two worker processes, messages in memory only (lost at a \
    restart), no authentication, no order across restarts";

pub fn prepare() -> Result<()> {
    Unpacked::fetch(NAME, &PACKAGES, NGINX)?;
    // nchan makes nginx create this folder's children, whatever the configuration.
    std::fs::create_dir_all(HOME).with_context(|| format!("{HOME} is needed"))
}

pub struct Nchan {
    nginx: Process,
    pub address: SocketAddr,
    folder: PathBuf,
}

impl Nchan {
    pub async fn start() -> Result<Self> {
        let unpacked = Unpacked::fetch(NAME, &PACKAGES, NGINX)?;
        let folder = std::env::temp_dir().join(format!("rejoin-bench-nchan-{}", std::process::id()));
        std::fs::create_dir_all(&folder)?;
        let address = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let config = folder.join("nginx.conf");
        let text = config_text(
            &unpacked.path(MODULE).display().to_string(),
            &folder.display().to_string(),
            address,
        );
        std::fs::write(&config, text).context("writing nginx.conf")?;
        let nginx = Process::spawn(
            unpacked
                .command(NGINX)
                .arg("-p")
                .arg(&folder)
                .arg("-c")
                .arg(&config)
                .args(["-e", "stderr"]),
        )?;
        wait_until_ready(&format!("http://{address}/ready")).await?;
        Ok(Self { nginx, address, folder })
    }

    pub fn request(log: usize) -> String {
        format!("GET /sub?id=log-{log} HTTP/1.1\r\nHost: peer\r\nAccept: text/event-stream\r\n\r\n")
    }

    /// Usage of all its processes.
    pub fn usage(&self) -> Result<Usage> {
        tree_usage(self.nginx.pid())
    }
}

impl Drop for Nchan {
    fn drop(&mut self) {
        // Its workers would outlive a killed master.
        let _ = std::process::Command::new("kill")
            .args(["-TERM", &self.nginx.pid().to_string()])
            .status();
        // Left to the system's temporary folder otherwise.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn config_text(module: &str, folder: &str, address: SocketAddr) -> String {
    format!(
        "load_module {module};
daemon off;
worker_processes 2;
worker_rlimit_nofile 20000;
pid {folder}/nginx.pid;
error_log stderr crit;
events {{ worker_connections 16000; }}
http {{
    access_log off;
    tcp_nodelay on;
    keepalive_requests 100000000;
    keepalive_timeout 600s;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    nchan_shared_memory_size 256M;
    server {{
        listen {address} backlog=4096;
        location = /ready {{ return 200 'ready'; }}
        location = /pub {{
            nchan_publisher;
            nchan_channel_id $arg_id;
            nchan_message_buffer_length 1000;
            nchan_message_timeout 1m;
        }}
        location = /sub {{
            nchan_subscriber eventsource;
            nchan_channel_id $arg_id;
            nchan_subscriber_first_message newest;
        }}
    }}
}}
"
    )
}
