# What a read-only source is never to do, a statement a line. `orders` is a table with rows; `~`: the walls behind the guard let it
# pass: it changes nothing there, is undone, or ended by the clock.
delete from orders
update orders set id = 0
insert into orders values (99)
replace into orders values (99)
truncate table orders
drop table orders
drop database shop
create table stolen as select * from orders
create table stolen (id int)
create temporary table stolen (id int)
create database stolen
create view stolen as select * from orders
create procedure steal() select 1
create function steal() returns int deterministic return 1
create trigger t before insert on orders for each row set new.id = 1
create event e on schedule every 1 day do delete from orders
create user thief
create role thief
alter table orders add column x int
alter user current_user() identified by 'x'
alter database shop character set latin1
rename table orders to stolen
grant all on *.* to thief
revoke all on *.* from thief
set password = 'x'
set global max_connections = 1
set session transaction read write
set autocommit = 1
set @x = 1
set sql_mode = ''
set names gbk
select 1; delete from orders
select 1; commit; delete from orders
; delete from orders
~select 1 /*!50000 union select load_file('/etc/passwd') */
select 1 /*!; delete from orders */
/*!50000 delete from orders */
/*M!100100 delete from orders */
/*! set @a = 1 */
~select 1 --1, load_file('/etc/passwd')
start transaction
start transaction read write
begin
commit
rollback and chain
savepoint s
release savepoint s
lock tables orders write
unlock tables
flush tables
flush privileges
flush logs
reset query cache
purge binary logs before now()
kill 1
kill query 1
shutdown
do sleep(100)
do release_lock('x')
call steal()
prepare p from 'delete from orders'
execute p
deallocate prepare p
execute immediate 'delete from orders'
handler orders open
load data infile '/etc/passwd' into table orders
load data local infile '/etc/passwd' into table orders
load xml infile '/etc/passwd' into table orders
select * from orders into outfile '/tmp/stolen'
select * into outfile '/tmp/stolen' from orders
select id into dumpfile '/tmp/stolen' from orders
~select id into @x from orders limit 1
~select * from orders for update
~select * from orders lock in share mode
select * from (select * from orders for update) q where load_file('/x') = sleep(100)
~select load_file('/etc/passwd')
~select LOAD_FILE('/etc/passwd')
~select `load_file`('/etc/passwd')
~select load_file /* */ ('/etc/passwd')
~select '\\', load_file('/etc/passwd')
~select "a\"b", load_file('/etc/passwd')
select sleep(100)
select sleep(100) from orders
~select benchmark(2000000000, sha2('x', 512))
~select get_lock('x', 0)
~select release_lock('x')
~select is_free_lock('x')
~select master_pos_wait('x', 1, 1)
select sys_exec('id')
select sys_eval('id')
select shop.steal()
select steal()
~select @a := 1
~select @@datadir
~select @@global.secure_file_priv
select * from mysql.user
select authentication_string from mysql.global_priv
select * from `mysql`.`user`
select * from mysql.db where 1 = sleep(100)
~select * from performance_schema.threads
select * from sys.statement_analysis where x = 1
with d as (delete from orders returning id) select * from d
with x as (select 1) delete from orders
with x as (select 1) update orders set id = 0
select * from orders where id in (select load_file('/x') union select sleep(100))
select * from orders order by sleep(100)
select * from orders group by sleep(100)
select * from orders having sleep(100) = 0
~select * from orders limit 1 procedure analyse()
values (sleep(100))
select case when 1 then sleep(100) end
select if(1, sleep(100), 0)
explain analyze select sleep(100)
explain delete from orders where id = sleep(0) and steal()
analyze select sleep(100)
analyze table orders
analyze delete from orders
optimize table orders
repair table orders
check table orders extended for steal
checksum table stolen
install plugin x soname 'x.so'
install soname 'x.so'
uninstall plugin x
change master to master_host = 'x'
start slave
stop slave
show slave status
show master status
show binary logs
~show processlist
~show engine innodb status
~show grants for root
show create user root
help 'x' into outfile '/x'
use mysql
signal sqlstate '45000'
xa start 'x'
binlog 'x'
cache index orders in x
select nextval(numbers)
select next value for numbers
select setval(numbers, 5)
{ call steal() }
select {fn sleep(100)}
~(table mysql.user)
~table orders
~table mysql.user
~select 1 union all table mysql.user
~with x as (select 1) table mysql.user
~select * from orders where id in (table orders)
~(table orders for share)
~(table orders for update)
~select 1 union all table orders ; flush
~(select * from orders for share)
~select (select id from orders limit 1 for update)
~select 1 union (select id from orders for update)
~with x as (select id from orders for share) select * from x
~select * from orders for update skip locked
~select * from orders where id = (select max(id) from orders lock in share mode)
~show create table mysql.user
~show create view sys.version
~show columns from user from mysql
~show columns from mysql.user
~show tables from mysql
~show tables in performance_schema
~describe mysql.user
~explain mysql.user
~explain select * from mysql.user
~select * from information_schema.processlist
~select * from INFORMATION_SCHEMA.`PROCESSLIST`
~select * from information_schema.global_variables
~select * from information_schema.system_variables
~select /*+ SET_VAR(join_buffer_size=4294967295) MAX_EXECUTION_TIME(999999999) */ 1
~select /*+MAX_EXECUTION_TIME(0)*/ * from orders
~select * from (select /*+ NO_INDEX(orders) */ * from orders) q
