//! Kinds of database, and sets of them. Named by agents' specialties, consoles and a project's data sources.

use serde::{Deserialize, Serialize};

/// A kind of database that an agent can specialize in. On the wire and in definitions: its name in lower case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Database {
    #[serde(alias = "postgres", alias = "cloudsql-postgres")]
    PostgreSql,
    Redshift,
    #[serde(alias = "mariadb")]
    MySql,
    #[serde(alias = "d1")]
    Sqlite,
    DuckDb,
    #[serde(alias = "sqlserver")]
    MsSql,
    ClickHouse,
    BigQuery,
    Snowflake,
    #[serde(alias = "mongo")]
    MongoDb,
}

impl Database {
    pub const ALL: [Self; 10] = [
        Self::PostgreSql,
        Self::Redshift,
        Self::MySql,
        Self::Sqlite,
        Self::DuckDb,
        Self::MsSql,
        Self::ClickHouse,
        Self::BigQuery,
        Self::Snowflake,
        Self::MongoDb,
    ];

    /// The spelling in definitions.
    pub const fn name(self) -> &'static str {
        match self {
            Self::PostgreSql => "postgresql",
            Self::Redshift => "redshift",
            Self::MySql => "mysql",
            Self::Sqlite => "sqlite",
            Self::DuckDb => "duckdb",
            Self::MsSql => "mssql",
            Self::ClickHouse => "clickhouse",
            Self::BigQuery => "bigquery",
            Self::Snowflake => "snowflake",
            Self::MongoDb => "mongodb",
        }
    }

    /// Returns the kind with this name, as used by consoles and data sources; also by its aliases. None: a kind without
    /// specialists, which is neither a signal nor an error.
    pub fn named(name: &str) -> Option<Self> {
        let name = serde::de::value::StrDeserializer::<serde::de::value::Error>::new(name);
        Self::deserialize(name).ok()
    }
}

/// A set of kinds, one bit each.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Databases(u16);

impl Databases {
    pub const NONE: Self = Self(0);
    /// Systems without specialists: naming one indicates that the message is about something else.
    pub(super) const ELSEWHERE: Self = Self(1 << 15);

    pub const fn just(database: Database) -> Self {
        Self(1 << database as u16)
    }

    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    pub const fn meets(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    pub const fn has(self, database: Database) -> bool {
        self.meets(Self::just(database))
    }

    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub const fn len(self) -> u32 {
        self.0.count_ones()
    }

    pub fn iter(self) -> impl Iterator<Item = Database> {
        Database::ALL.into_iter().filter(move |database| self.has(*database))
    }
}

impl FromIterator<Database> for Databases {
    fn from_iter<I: IntoIterator<Item = Database>>(databases: I) -> Self {
        databases
            .into_iter()
            .fold(Self::NONE, |set, database| set.and(Self::just(database)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_one_name_and_is_found_by_it() {
        for database in Database::ALL {
            assert_eq!(Database::named(database.name()), Some(database));
            assert_eq!(serde_json::to_value(database).unwrap(), database.name());
        }
        assert_eq!(Database::named("cloudsql-postgres"), Some(Database::PostgreSql));
        assert_eq!(Database::named("d1"), Some(Database::Sqlite));
        assert_eq!(Database::named("spreadsheet"), None);
    }

    #[test]
    fn a_set_has_what_was_put_into_it() {
        let set: Databases = [Database::MySql, Database::MongoDb].into_iter().collect();
        assert!(set.has(Database::MongoDb) && !set.has(Database::BigQuery));
        assert_eq!(set.iter().collect::<Vec<_>>(), [Database::MySql, Database::MongoDb]);
        assert!(set.without(set).is_empty() && !set.meets(Databases::ELSEWHERE));
    }
}
