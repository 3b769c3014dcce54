//! Brings single items of a manifest to their wanted state: agents, MCP servers, jobs, template packs.

use rejoin_graph::packs;
use rejoin_integrations::mcp;
use rejoin_runs::agents::{self, DefinitionContent};
use rejoin_scheduling::schedules::{self, ScheduleContent};
use serde_json::Value;

use crate::manifest::{WantedPack, words};
use crate::{AGENTS, Action, JOBS, PACKS, ProductError, SERVERS, Work};

impl Work<'_> {
    pub(super) async fn agent(&mut self, wanted: &DefinitionContent) -> Result<(), ProductError> {
        let (kind, name) = (AGENTS.0, wanted.name.as_str());
        let Some(there) = agents::find_by_name(&mut *self.db, self.workspace_id, name).await? else {
            agents::insert(&mut *self.db, self.workspace_id, wanted).await?;
            self.note(kind, name, Action::Create, vec![]);
            return Ok(());
        };
        if !self.may_change(AGENTS, name) {
            return Ok(());
        }
        let differs = DefinitionContent::from(there.clone()).changed_fields(wanted);
        if differs.is_empty() {
            self.note(kind, name, Action::Keep, vec![]);
            return Ok(());
        }
        agents::update(&mut *self.db, self.workspace_id, there.id, wanted).await?;
        self.note(
            kind,
            name,
            Action::Update,
            differs.into_iter().map(str::to_owned).collect(),
        );
        Ok(())
    }

    pub(super) async fn server(&mut self, wanted: &mcp::Settings) -> Result<(), ProductError> {
        let (kind, name) = (SERVERS.0, wanted.name.as_str());
        let there = mcp::list(&mut *self.db, self.workspace_id).await?;
        let Some(there) = there.into_iter().find(|server| server.settings.name == name) else {
            mcp::create(&mut *self.db, self.workspace_id, wanted, Some(self.name)).await?;
            self.note(kind, name, Action::Create, vec![]);
            return Ok(());
        };
        if !self.may_change(SERVERS, name) {
            return Ok(());
        }
        let differs = there.settings.changed_fields(wanted);
        if differs.is_empty() {
            self.note(kind, name, Action::Keep, vec![]);
            return Ok(());
        }
        mcp::update(&mut *self.db, &there, wanted).await?;
        self.note(
            kind,
            name,
            Action::Update,
            differs.into_iter().map(str::to_owned).collect(),
        );
        Ok(())
    }

    /// A job is a schedule. The workspace decides whether it is enabled; that is kept.
    pub(super) async fn job(&mut self, wanted: &Value) -> Result<(), ProductError> {
        let (kind, name) = (JOBS.0, words(wanted, "name"));
        let mut wanted = ScheduleContent::of_job(wanted).map_err(ProductError::Invalid)?;
        let Some(there) = schedules::find_by_name(&mut *self.db, self.workspace_id, name).await? else {
            schedules::insert(&mut *self.db, self.workspace_id, None, &wanted).await?;
            self.note(kind, name, Action::Create, vec![]);
            return Ok(());
        };
        if !self.may_change(JOBS, name) {
            return Ok(());
        }
        let current = ScheduleContent::from(&there);
        wanted.enabled = current.enabled;
        let differs = current.changed_fields(&wanted);
        if differs.is_empty() {
            self.note(kind, name, Action::Keep, vec![]);
            return Ok(());
        }
        // Its runs then belong to the product, and to no user.
        schedules::update(&mut *self.db, there.id, &wanted, None).await?;
        self.note(
            kind,
            name,
            Action::Update,
            differs.into_iter().map(str::to_owned).collect(),
        );
        Ok(())
    }

    pub(super) async fn pack(&mut self, wanted: &WantedPack) -> Result<(), ProductError> {
        let (kind, name) = (PACKS.0, wanted.name());
        let pack = match wanted {
            WantedPack::Whole(new) => packs::create(&mut *self.db, self.workspace_id, new).await?,
            WantedPack::Named { name, version } => packs::find(&mut *self.db, self.workspace_id, name, version)
                .await?
                .ok_or_else(|| {
                    ProductError::Invalid(format!("there is no template pack {name} of version {version}"))
                })?,
        };
        let installed = packs::installed(&mut *self.db, self.workspace_id).await?;
        if installed.iter().any(|one| one.pack_id == pack.id) {
            // By any installation before: equal packs are the same.
            self.note(kind, name, Action::Keep, vec![]);
            return Ok(());
        }
        // Two versions of a pack would validate the same types against two schemas.
        let earlier = installed.into_iter().find(|one| one.name == name && one.active);
        if let Some(earlier) = &earlier {
            if !self.may_change(PACKS, name) {
                return Ok(());
            }
            let lost = packs::lost_by(&mut *self.db, self.workspace_id, earlier.pack_id, pack.id).await?;
            if !lost.is_empty() {
                let detail = format!(
                    "version {} has no {}, but objects of this type exist; keep the type, or delete them first",
                    wanted.version(),
                    lost.join(", ")
                );
                self.note(kind, name, Action::Conflict, vec![detail]);
                return Ok(());
            }
            packs::release(&mut *self.db, self.workspace_id, earlier.id).await?;
        }
        packs::assign(&mut *self.db, self.workspace_id, pack.id, None, &[]).await?;
        match earlier {
            None => self.note(
                kind,
                name,
                Action::Create,
                vec![format!("version {}", wanted.version())],
            ),
            Some(earlier) => {
                let detail = format!("version {} instead of {}", wanted.version(), earlier.version);
                self.note(kind, name, Action::Update, vec![detail]);
            }
        }
        Ok(())
    }
}
