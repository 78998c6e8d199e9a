@echo off
rem Tries what an ordinary user can do.
cd /d C:\TransomVerify\said
type C:\TransomVerify\open\pods\file.txt >nul 2>nul
if not errorlevel 1 >>said.txt echo reads-volumes
mkdir C:\TransomVerify\open\pods\his 2>nul
if exist C:\TransomVerify\open\pods\his\ >>said.txt echo writes-volumes
ren C:\TransomVerify\open his 2>nul
if exist C:\TransomVerify\open\ >>said.txt echo no-rename
type C:\TransomVerify\closed\below\file.txt >nul 2>nul
if errorlevel 1 >>said.txt echo no-keys
%SystemRoot%\System32\reg.exe query HKLM\SOFTWARE\TransomVerify\Closed\below /reg:64 >nul 2>nul
if errorlevel 1 >>said.txt echo no-ledger
mkdir C:\Windows\TransomVerify 2>nul
if not exist C:\Windows\TransomVerify\ >>said.txt echo no-base
>done.txt echo done
