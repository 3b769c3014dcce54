# What a read-only source is never to do, a statement a line. `orders` is a table with rows; `~`: the walls behind the guard let it
# pass: it changes nothing there, is undone, or ended by the clock.
delete from orders
update orders set id = 0
insert into orders values (99)
truncate orders
drop table orders
create table stolen as select * from orders
create table stolen (id int)
alter table orders add column x int
alter table orders disable row level security
select * into stolen from orders
select 1; delete from orders
select 1; commit; delete from orders
commit; delete from orders
rollback; delete from orders; select 1
begin; delete from orders; commit
; delete from orders
set transaction read write; delete from orders
set transaction read write
set session characteristics as transaction read write
set default_transaction_read_only = off
set statement_timeout = 0
set role postgres
set session authorization postgres
reset all
reset statement_timeout
discard all
with d as (delete from orders returning *) select * from d
with u as (update orders set id = 1 returning *) select * from u
with i as (insert into orders values (98) returning *) select * from i
with x as (select 1), y as (with z as (delete from orders returning id) select * from z) select * from y
select * from (with d as (delete from orders returning *) select * from d) q
select * from orders where id in (with d as (delete from orders returning id) select id from d)
merge into orders using (select 1 as id) s on orders.id = s.id when matched then delete
explain analyze delete from orders
explain (analyze) select pg_sleep(100)
explain (analyze true, verbose) update orders set id = 0
explain delete from orders
copy orders to '/tmp/stolen'
copy orders from '/etc/passwd'
copy (select * from orders) to program 'sh -c id'
copy orders from program 'id'
copy orders to stdout
copy orders from stdin
do $$ begin delete from orders; end $$
do language plpgsql 'begin perform pg_sleep(100); end'
call pg_catalog.pg_stat_reset()
prepare p as delete from orders
execute p
deallocate all
declare c cursor for select * from orders
fetch all from rejoin
close rejoin
move all in rejoin
lock table orders in access exclusive mode
select * from orders for update
select * from orders for share
select * from orders for no key update skip locked
select * from (select * from orders for key share) q
vacuum orders
vacuum full
analyze orders
cluster orders
reindex table orders
checkpoint
listen x
notify x, 'stolen'
unlisten *
load 'auto_explain'
security label on table orders is 'x'
comment on table orders is 'x'
grant all on orders to public
revoke all on orders from public
create role thief superuser login
alter role current_user superuser
alter system set log_statement = 'all'
create extension dblink
create extension file_fdw
create function steal() returns int language sql as 'select 1'
create view stolen as select * from orders
create schema stolen
create temp table stolen (id int)
create rule r as on select to orders do instead select 1
create trigger t before insert on orders execute function steal()
create event trigger e on ddl_command_start execute function steal()
create publication p for all tables
create server s foreign data wrapper file_fdw
import foreign schema public from server s into public
refresh materialized view stolen
select nextval('numbers')
select setval('numbers', 1)
~select set_config('default_transaction_read_only', 'off', false)
~select set_config('statement_timeout', '0', false)
select set_config('transaction_read_only', 'off', true), (select count(*) from dblink('', 'delete from orders') as t(x int))
~select pg_notify('x', 'stolen')
select pg_sleep(100)
select pg_sleep_for('100 s')
select pg_sleep_until(now() + interval '100 s')
select count(pg_sleep(1)) from generate_series(1, 100)
select pg_terminate_backend(pid) from pg_stat_activity where usename <> current_user
select pg_cancel_backend(pid) from pg_stat_activity where usename <> current_user
select pg_reload_conf()
select pg_rotate_logfile()
select pg_read_file('/etc/passwd')
select pg_read_binary_file('/etc/passwd')
select * from pg_ls_dir('/')
select pg_stat_file('/etc/passwd')
select * from pg_ls_logdir()
select lo_import('/etc/passwd')
select lo_export(1, '/tmp/stolen')
~select lo_create(0)
~select lo_from_bytea(0, '\x00')
select lo_unlink(1)
~select pg_advisory_lock(1)
~select pg_try_advisory_xact_lock(1)
select pg_switch_wal()
select pg_create_restore_point('x')
select pg_create_physical_replication_slot('x')
select pg_drop_replication_slot('x')
select pg_export_snapshot() from pg_read_file('x')
select pg_promote()
select pg_stat_reset()
select query_to_xml('delete from orders returning 1', true, true, '')
select database_to_xml(true, true, '') from pg_read_file('x')
select cursor_to_xml('rejoin', 1, true, true, '') from lo_create(0)
select ts_stat('select pg_sleep(100)::text::tsvector')
select dblink('dbname=postgres', 'delete from orders')
select dblink_connect('dbname=postgres')
select dblink_exec('dbname=postgres', 'delete from orders')
select * from dblink('dbname=postgres', 'delete from orders') as t(x text)
select public.steal()
select "public"."steal"()
select pg_catalog.pg_read_file('/etc/passwd')
select PG_READ_FILE('/etc/passwd')
select "pg_read_file"('/etc/passwd')
select U&"pg\005fread_file"('/etc/passwd')
select pg_read_file/* */('/etc/passwd')
select id operator(public.+) 1 from orders
select (select pg_read_file('/etc/passwd')) from orders
~select 1 where exists (select pg_read_file('/etc/passwd'))
select 1 order by pg_read_file('/etc/passwd')
select 1 limit length(pg_read_file('/etc/passwd'))
select count(*) filter (where pg_read_file('/etc/passwd') is null) from orders
select rank() over (order by pg_read_file('/etc/passwd')) from orders
values (pg_read_file('/etc/passwd'))
select * from orders, lateral pg_read_file('/etc/passwd') f
select * from rows from (pg_ls_dir('/')) f
select case when true then pg_read_file('/etc/passwd') end
select array(select pg_read_file('/etc/passwd'))
select * from pg_authid
select rolpassword from pg_catalog.pg_authid
select passwd from pg_shadow
select * from pg_user_mappings where 1 / (select count(*) from pg_user_mapping) = 0
select * from pg_file_settings
select * from pg_hba_file_rules
select * from pg_largeobject
select binary_upgrade_set_next_pg_type_oid(1)
select pg_logical_slot_get_changes('x', null, null)
select pg_replication_origin_create('x')
select inet_server_addr(), pg_ls_waldir()
~select 1 operator(ev.=) any (select 1)
~select 1 operator(ev.=) all (select 1)
~select (1, 2) operator(ev.=) (select 1, 2)
~select id from orders order by id using operator(ev.<)
~select 1 operator(ev.=) any (array[1])
~select operator(ev.-) 1
~select sum(id) over (order by id using operator(ev.<)) from orders
~select string_agg(item, ',' order by id using operator(ev.<)) from orders
~select * from information_schema.user_mapping_options
~select * from information_schema._pg_user_mappings
~select * from information_schema.foreign_server_options
~select * from information_schema._pg_foreign_servers
~select * from information_schema.foreign_data_wrapper_options
~select * from information_schema.foreign_table_options
~select * from information_schema._pg_foreign_tables
~select * from information_schema.column_options
~select * from pg_foreign_data_wrapper
~select * from pg_foreign_table
~select * from pg_settings
~select setting from pg_catalog.pg_settings where name = 'data_directory'
~select * from pg_db_role_setting
~select * from pg_config
~select * from pg_stat_wal_receiver
~show all
~show app.jwt_secret
~show data_directory
~show config_file
~table pg_settings
~select (select s from pg_settings s limit 1)
