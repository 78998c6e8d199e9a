set "BAD="
@CHECKS@
if defined BAD exit /b 0
