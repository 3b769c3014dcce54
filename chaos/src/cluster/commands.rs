//! The commands for operators in docs/operations/ha.md, executed as the page has them.

use std::process::{Output, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use tokio::process::Command;
use tokio::time::timeout;

use super::{Cluster, config};

const PAGE: &str = include_str!("../../../docs/operations/ha.md");
/// The heading above them.
const HEADING: &str = "\n## Commands\n";
/// What the page calls the configuration of a node, and its REST API.
const CONFIGURATION: &str = "/etc/patroni.yml";
const REST: &str = "10.0.0.10:8008";
/// Those that ask an operator before they act, and the option by which they do not.
const ASKING: [&str; 2] = ["switchover", "edit-config"];
const UNASKED: &str = " --force";
const LIMIT: Duration = Duration::from_secs(90);

/// The commands, without their comments.
fn commands() -> Result<Vec<&'static str>> {
    let (_, behind) = PAGE.split_once(HEADING).context("the page has commands")?;
    let (_, block) = behind.split_once("```sh\n").context("they are in a block")?;
    let (block, _) = block.split_once("\n```").context("the block ends")?;
    let lines = block
        .lines()
        .map(|line| line.split("  #").next().unwrap_or_default().trim());
    Ok(lines.filter(|line| !line.is_empty()).collect())
}

impl Cluster {
    /// Executes them, and waits after each until the cluster is whole.
    ///
    /// # Errors
    /// One fails, or the cluster does not become whole.
    pub async fn operate(&self) -> Result<()> {
        for command in commands()? {
            let output = self.obey(command).await?;
            ensure!(
                output.status.success(),
                "the command of the manual failed: {command}\n{}{}",
                String::from_utf8_lossy(&output.stdout),
                String::from_utf8_lossy(&output.stderr)
            );
            self.settled().await.with_context(|| format!("after {command}"))?;
        }
        Ok(())
    }

    async fn obey(&self, command: &str) -> Result<Output> {
        let node = &self.nodes[0];
        let file = self.folder.join(format!("{}.json", config::name(0)));
        let mut line = command
            .replace(CONFIGURATION, &file.display().to_string())
            .replace(REST, &node.rest.to_string());
        if ASKING.iter().any(|asking| command.contains(asking)) {
            line.push_str(UNASKED);
        }
        let me = std::env::current_exe().context("our own path")?;
        let usual = std::env::var_os("PATH").unwrap_or_default();
        let folders = [
            self.programs.clone(),
            me.parent().context("we are in a folder")?.to_owned(),
        ];
        let path = std::env::join_paths(folders.into_iter().chain(std::env::split_paths(&usual)))?;
        let mut shell = Command::new("sh");
        shell
            .args(["-c", &line])
            .env("PATH", path)
            .env("DATABASE_URL", self.url("rejoin"))
            .stdin(Stdio::null())
            .kill_on_drop(true);
        let done = timeout(LIMIT, shell.output()).await;
        let done = done.with_context(|| {
            format!(
                "the command of the manual took longer than {} s: {command}",
                LIMIT.as_secs()
            )
        })?;
        done.context("no shell")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_commands() {
        let commands = commands().expect("a block");
        assert!(commands.len() >= 4, "{commands:?}");
        for asking in ASKING {
            assert!(commands.iter().any(|command| command.contains(asking)), "{asking}");
        }
        assert!(commands.iter().all(|command| !command.contains('#')), "{commands:?}");
    }
}
