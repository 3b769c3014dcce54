//! TLS with a private authority and certificates of clients, for both drivers.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use rejoin_cli::dev::postgres::{PostgresOptions, PrivatePostgres};
use rejoin_db::config::DatabaseArgs;
use rejoin_db::failure_log::ErrorChain;
use rejoin_db::{Db, Role, operators};
use rejoin_tests::ports::free_port;
use rejoin_tests::{needs, pgbouncer};
use sqlx::PgPool;
use uuid::Uuid;

use super::{authenticate, reload, run};

/// A login that is known by its certificate.
const CERTIFIED: &str = "certified";

/// A server that accepts TCP connections with TLS only.
struct TlsServer {
    postgres: PrivatePostgres,
    pool: PgPool,
    certificates: PathBuf,
    port: u16,
}

impl TlsServer {
    /// None: a program is missing, or the server can't use TLS.
    async fn start() -> Option<Self> {
        if Command::new("openssl").arg("version").output().is_err() {
            needs::skip("openssl is not installed: TLS is not tried");
            return None;
        }
        let certificates = std::env::temp_dir().join(format!("rejoin-tls-{}", Uuid::now_v7().simple()));
        std::fs::create_dir(&certificates).unwrap();
        let port = free_port();
        let options = PostgresOptions {
            extra_settings: vec![
                ("listen_addresses".into(), "127.0.0.1".into()),
                ("port".into(), port.to_string()),
            ],
            ..PostgresOptions::ephemeral()
        };
        let postgres = PrivatePostgres::start(options).await.expect("a private PostgreSQL");
        let pool = PgPool::connect(&postgres.url()).await.unwrap();
        let server = Self {
            postgres,
            pool,
            certificates,
            port,
        };
        server.certify();
        if !server.use_tls().await {
            needs::skip("this PostgreSQL was built without TLS: it is not tried");
            return None;
        }
        Some(server)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.certificates.join(name)
    }

    /// Makes an authority, a certificate of the server `localhost`, and one of a client.
    fn certify(&self) {
        let key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
        let openssl = |arguments: String| openssl(&self.certificates, &arguments);
        openssl(format!(
            "req -x509 {key} -keyout ca.key -out ca.pem -days 2 -subj /CN=Test-Authority"
        ));
        for (name, subject, extensions) in [
            (
                "server",
                "database",
                "basicConstraints=CA:FALSE\nsubjectAltName=DNS:localhost\n",
            ),
            (
                "client",
                CERTIFIED,
                "basicConstraints=CA:FALSE\nextendedKeyUsage=clientAuth\n",
            ),
        ] {
            std::fs::write(self.path(&format!("{name}.ext")), extensions).unwrap();
            openssl(format!(
                "req -new {key} -keyout {name}.key -out {name}.csr -subj /CN={subject}"
            ));
            openssl(format!(
                "x509 -req -in {name}.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile {name}.ext -out {name}.pem"
            ));
        }
        // The server reads its key as its user.
        let owner = pgbouncer::owner(&self.postgres);
        let key = self.path("server.key");
        std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
        let changed = Command::new("chown").arg(&owner).arg(&key).output().unwrap();
        assert!(changed.status.success(), "{changed:?}");
    }

    /// Whether the server can.
    async fn use_tls(&self) -> bool {
        for (setting, file) in [
            ("ssl_cert_file", "server.pem"),
            ("ssl_key_file", "server.key"),
            ("ssl_ca_file", "ca.pem"),
        ] {
            let set = format!("alter system set {setting} = '{}'", self.path(file).display());
            run(&self.pool, &set).await;
        }
        if sqlx::raw_sql("alter system set ssl = on")
            .execute(&self.pool)
            .await
            .is_err()
        {
            return false;
        }
        run(&self.pool, &format!("create role {CERTIFIED} login")).await;
        let rules = format!(
            "hostssl all {CERTIFIED} 127.0.0.1/32 cert\nhostssl all rejoin 127.0.0.1/32 trust\nhost all all all reject"
        );
        authenticate(&self.postgres, &self.pool, &rules).await;
        reload(&self.pool).await;
        true
    }

    fn url(&self, user: &str, host: &str, parameters: &str) -> String {
        format!("postgres://{user}@{host}:{}/rejoin?{parameters}", self.port)
    }

    async fn stop(self) {
        self.pool.close().await;
        self.postgres.stop().await.unwrap();
        std::fs::remove_dir_all(&self.certificates).unwrap();
    }
}

fn openssl(folder: &Path, arguments: &str) {
    let output = Command::new("openssl")
        .args(arguments.split(' '))
        .current_dir(folder)
        .output()
        .expect("openssl(1)");
    assert!(output.status.success(), "openssl {arguments}: {output:?}");
}

/// Whether a connection of each driver is encrypted, or its error.
async fn connections(url: &str) -> [Result<bool, String>; 2] {
    let encrypted = "select ssl from pg_stat_ssl where pid = pg_backend_pid()";
    let by_sqlx = match operators::connect(url, "rejoin-test").await {
        Ok(mut session) => Ok(sqlx::query_scalar(encrypted).fetch_one(&mut session).await.unwrap()),
        Err(error) => Err(ErrorChain(&error).to_string()),
    };
    let by_tokio_postgres = match Db::connect_lazy(&DatabaseArgs::new(url), "rejoin-test", Role::Login) {
        Ok(db) => match db.pool_pg.get().await {
            Ok(client) => Ok(client.query_one(encrypted, &[]).await.unwrap().get(0)),
            Err(error) => Err(ErrorChain(&error).to_string()),
        },
        Err(error) => Err(ErrorChain(&error).to_string()),
    };
    [by_sqlx, by_tokio_postgres]
}

async fn are_encrypted(url: &str) {
    assert_eq!(connections(url).await, [Ok(true), Ok(true)], "{url}");
}

async fn are_refused(url: &str, words: &str) {
    for refused in connections(url).await {
        let refused = refused.expect_err(url);
        assert!(refused.contains(words), "{url}: {refused}");
    }
}

#[tokio::test]
async fn a_verified_certificate_is_of_the_authority_and_the_host() {
    let Some(server) = TlsServer::start().await else { return };
    let root = format!("sslrootcert={}", server.path("ca.pem").display());
    for mode in ["verify-full", "verify-ca", "require"] {
        are_encrypted(&server.url("rejoin", "localhost", &format!("sslmode={mode}&{root}"))).await;
        let wrong_name = server.url("rejoin", "127.0.0.1", &format!("sslmode={mode}&{root}"));
        are_refused(&wrong_name, "not valid for name").await;
    }
    are_refused(
        &server.url("rejoin", "localhost", "sslmode=verify-full"),
        "UnknownIssuer",
    )
    .await;
    are_refused(
        &server.url("rejoin", "localhost", "sslmode=verify-full&sslrootcert=/missing.pem"),
        "/missing.pem",
    )
    .await;
    // A replaced file counts for the next connection.
    let copy = server.path("copy.pem");
    std::fs::copy(server.path("client.pem"), &copy).unwrap();
    let url = server.url(
        "rejoin",
        "localhost",
        &format!("sslmode=verify-full&sslrootcert={}", copy.display()),
    );
    let db = Db::connect_lazy(&DatabaseArgs::new(&url), "rejoin-test", Role::Login).unwrap();
    assert!(db.pool_pg.get().await.is_err() && db.pool_sqlx.acquire().await.is_err());
    std::fs::copy(server.path("ca.pem"), &copy).unwrap();
    assert!(db.pool_pg.get().await.is_ok() && db.pool_sqlx.acquire().await.is_ok());
    drop(db);
    server.stop().await;
}

#[tokio::test]
async fn connections_are_encrypted_without_verification() {
    let Some(server) = TlsServer::start().await else { return };
    for mode in ["sslmode=require", "sslmode=prefer", "connect_timeout=5"] {
        are_encrypted(&server.url("rejoin", "127.0.0.1", mode)).await;
    }
    are_refused(&server.url("rejoin", "127.0.0.1", "sslmode=disable"), "pg_hba.conf").await;
    // On a Unix socket there is none to ask for.
    let local = format!("{}?sslmode=verify-full", server.postgres.url());
    assert_eq!(connections(&local).await, [Ok(false), Ok(false)]);
    server.stop().await;
}

#[tokio::test]
async fn a_client_is_known_by_its_certificate() {
    let Some(server) = TlsServer::start().await else { return };
    let root = format!("sslmode=verify-full&sslrootcert={}", server.path("ca.pem").display());
    let certified = format!(
        "{root}&sslcert={}&sslkey={}",
        server.path("client.pem").display(),
        server.path("client.key").display()
    );
    are_encrypted(&server.url(CERTIFIED, "localhost", &certified)).await;
    are_refused(&server.url(CERTIFIED, "localhost", &root), "certificate").await;
    let without_key = format!("{root}&sslcert={}", server.path("client.pem").display());
    are_refused(&server.url(CERTIFIED, "localhost", &without_key), "name both").await;
    server.stop().await;
}
