//! A description of the machine, since figures of different machines are hardly comparable.

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    pub cpu: String,
    pub cores: usize,
    pub memory_gib: u64,
    pub kernel: String,
    pub postgres: String,
    pub rust: String,
}

impl Machine {
    pub fn line(&self) -> String {
        format!(
            "{} cores of {}, {} GiB, Linux {}, {}, {}",
            self.cores, self.cpu, self.memory_gib, self.kernel, self.postgres, self.rust
        )
    }
}
