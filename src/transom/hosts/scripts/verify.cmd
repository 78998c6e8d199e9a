set "BAD="
@CHECKS@
@OWNERS@
if defined BAD exit /b 0
