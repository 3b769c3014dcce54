//! Operating the product: the command line, migrations, the container image, metrics, what admins see of queues and runs, benchmarks and fuzz targets.

mod bench;
mod command_line;
mod container;
mod doctor_fleet;
mod extensions;
mod filled_schema;
mod fuzz;
mod metrics;
mod migration_rules;
mod migrations;
mod older_schema;
mod overview;
mod partitions;
mod resume_suite;
mod unreleased_database;
