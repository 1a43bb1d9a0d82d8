from tests.nvml_standin.library import nvml, nvml_library

__all__ = ["nvml", "nvml_library"]
