# What a DuckDB source is never to do, a statement a line. `orders` is a table with rows. `~`: DuckDB's own program lets it pass: it
# changes nothing that is left, and shows nothing but the file.
delete from orders
update orders set id = 0
insert into orders values (99, 'x')
insert or replace into orders values (99, 'x')
insert into orders by name select 1 as id
merge into orders using orders o on false when not matched then insert values (1, 'x')
drop table orders
drop table if exists orders
truncate orders
create table stolen as select * from orders
create or replace table orders as select 1
create table stolen (id int)
~create temp table stolen (id int)
~create temp view stolen as select 1
create view stolen as select * from orders
create schema stolen
create sequence stolen
create type stolen as enum ('a')
create index i on orders (id)
create macro stolen(a) as a
~create temp macro stolen(a) as a
alter table orders add column x int
alter table orders rename to stolen
alter table orders drop column item
comment on table orders is 'x'
~select 1; select 2
select 1; delete from orders
begin; delete from orders; commit
~begin
~begin transaction
commit
rollback
checkpoint
force checkpoint
vacuum
~vacuum analyze
~analyze
attach '/tmp/stolen.db'
attach '/tmp/stolen.db' as stolen
attach ':memory:' as stolen
attach 'https://example.com/x.db' as stolen
attach 'host=localhost' as stolen (type postgres)
detach t
~use main
copy orders to '/tmp/stolen.csv'
copy (select * from orders) to '/tmp/stolen.parquet' (format parquet)
copy orders to '/dev/stdout'
copy orders from '/etc/passwd'
copy from database t to stolen
export database '/tmp/stolen'
import database '/tmp/stolen'
select * from read_csv('/etc/passwd')
select * from read_csv_auto('/etc/passwd')
select * from read_text('/etc/passwd')
select * from read_blob('/etc/passwd')
select * from read_json('/etc/passwd')
select * from read_parquet('/tmp/x.parquet')
select * from parquet_metadata('/tmp/x.parquet')
select * from parquet_schema('/tmp/x.parquet')
select * from sniff_csv('/etc/passwd')
select * from glob('/etc/*')
select * from '/etc/passwd'
select * from "/etc/passwd"
select * from '/etc/hosts.csv'
select * from "/etc/hosts.csv"
from '/etc/hosts.csv'
select * from 'https://example.com/x.parquet'
select * from "s3://bucket/x.parquet"
select (select count(*) from read_text('/etc/passwd'))
with x as (select * from read_text('/etc/passwd')) select * from x
select * from orders where item in (select content from read_text('/etc/passwd'))
~select * from query('select 1')
select * from query('select * from read_text(''/etc/passwd'')')
~select * from query_table('orders')
select getenv('HOME')
select * from duckdb_secrets()
~select * from duckdb_settings()
~select * from duckdb_extensions()
~select * from duckdb_logs
~select * from duckdb_memory()
~select * from duckdb_temporary_files()
~select * from duckdb_databases()
~select current_setting('secret_directory')
create secret s (type s3, key_id 'x', secret 'y')
create persistent secret s (type s3, key_id 'x', secret 'y')
drop secret s
install httpfs
force install httpfs from 'http://example.com'
load httpfs
load '/tmp/stolen.duckdb_extension'
update extensions
set memory_limit = '100GB'
set enable_external_access = true
set lock_configuration = false
set temp_directory = '/tmp/stolen'
set allowed_directories = ['/']
set global threads = 100
~set variable a = 1
reset memory_limit
reset lock_configuration
~pragma database_list
~pragma version
pragma memory_limit = '100GB'
pragma enable_profiling
pragma profiling_output = '/tmp/stolen'
pragma force_checkpoint
call force_checkpoint()
~call pragma_version()
~prepare p as select 1
execute p
deallocate p
explain analyze delete from orders
explain analyze copy orders to '/tmp/stolen.csv'
.shell touch /tmp/stolen
.system touch /tmp/stolen
.output /tmp/stolen
.once /tmp/stolen
.open /tmp/stolen.db
.read /etc/passwd
.import /etc/passwd orders
.cd /etc
.log /tmp/stolen
.excel
.edit
~table orders
~select 1 union all table orders ; begin
~select 1 union all table orders
