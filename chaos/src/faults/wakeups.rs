//! Lost wake-ups: everything works without them, within a second.

use anyhow::Result;
use async_trait::async_trait;
use rand::rngs::StdRng;
use sqlx::{Connection as _, PgConnection};
use std::time::{Duration, Instant};
use tokio::time::sleep;

use super::{Fault, Injection, ms};
use crate::world::World;

/// The pause between measurements of the machine.
const PAUSE: Duration = Duration::from_millis(100);

/// The name of periods without wake-ups in the evidence.
pub const LOSE_WAKEUPS: &str = "lose-wakeups";

/// F11: the listening connections of all processes are silently dead.
pub struct Lost;

#[async_trait]
impl Fault for Lost {
    fn name(&self) -> &'static str {
        LOSE_WAKEUPS
    }

    fn number(&self) -> &'static str {
        "F11"
    }

    async fn inject(&self, world: &World, dice: &mut StdRng) -> Result<Injection> {
        let lasts = ms(dice, 4_000..9_000);
        for member in &world.members {
            member.proxy.change(|weather| weather.deaf = true);
        }
        let late = machine_late(world, Instant::now() + lasts).await;
        for member in &world.members {
            member.proxy.change(|weather| weather.deaf = false);
        }
        let late = late?;
        Ok(Injection {
            machine_late_us: i64::try_from(late.as_micros()).ok(),
            ..Injection::of(format!(
                "for {} ms, with the machine up to {} ms late",
                lasts.as_millis(),
                late.as_millis()
            ))
        })
    }
}

/// Returns how late this machine is at most, until then, for a pause and a trivial statement on a connection without faults: what is read in
/// time on an idle machine is as late as that on this one.
async fn machine_late(world: &World, until: Instant) -> Result<Duration> {
    let mut connection = PgConnection::connect_with(&world.db.connect_options()).await?;
    let mut late = Duration::ZERO;
    while Instant::now() < until {
        let began = Instant::now();
        sleep(PAUSE).await;
        sqlx::query("select 1").execute(&mut connection).await?;
        late = late.max(began.elapsed().saturating_sub(PAUSE));
    }
    Ok(late)
}
