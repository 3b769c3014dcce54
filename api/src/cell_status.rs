//! What this process knows of the cells: for health checks and metrics. Written by `cells::apps`.

use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock};
use std::time::Instant;

use rejoin_telemetry::exposition::Exposition;

/// A cell, as it was last seen.
#[derive(Debug, Clone, Default)]
pub struct SeenCell {
    /// Why its workspaces get 503. None: it answers.
    pub problem: Option<String>,
    /// Workspaces that live there.
    pub workspaces: usize,
}

/// All cells but the directory, by name. Shared by all handlers.
#[derive(Debug, Default)]
pub struct CellStatus {
    seen: RwLock<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    cells: BTreeMap<String, SeenCell>,
    /// When it was last read where workspaces live.
    read_at: Option<Instant>,
}

impl CellStatus {
    /// Records a look at a cell.
    pub fn saw(&self, name: &str, problem: Option<String>) {
        let mut seen = self.seen.write().unwrap_or_else(PoisonError::into_inner);
        seen.cells.entry(name.to_owned()).or_default().problem = problem;
    }

    /// Records that it was read where workspaces live: their numbers by cell.
    pub fn counted(&self, workspaces: &BTreeMap<String, usize>) {
        let mut seen = self.seen.write().unwrap_or_else(PoisonError::into_inner);
        seen.read_at = Some(Instant::now());
        for (name, cell) in &mut seen.cells {
            cell.workspaces = workspaces.get(name).copied().unwrap_or_default();
        }
    }

    /// The cells by name.
    pub fn cells(&self) -> Vec<(String, SeenCell)> {
        let seen = self.seen.read().unwrap_or_else(PoisonError::into_inner);
        seen.cells
            .iter()
            .map(|(name, cell)| (name.clone(), cell.clone()))
            .collect()
    }

    /// Writes the metrics.
    pub fn write(&self, text: &mut Exposition) {
        let cells = self.cells();
        let mut up = text.family("rejoin_cell_up");
        for (name, cell) in &cells {
            up.sample(
                &[("cell", name.as_str())],
                if cell.problem.is_none() { 1.0 } else { 0.0 },
            );
        }
        let mut workspaces = text.family("rejoin_cell_projects");
        for (name, cell) in &cells {
            workspaces.sample(&[("cell", name.as_str())], cell.workspaces as f64);
        }
        let read_at = self.seen.read().unwrap_or_else(PoisonError::into_inner).read_at;
        if let Some(read_at) = read_at {
            text.value("rejoin_placements_age_seconds", read_at.elapsed().as_secs_f64());
        }
    }
}
