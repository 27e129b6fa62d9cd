import{h as a}from"./chunk-MXE7KT6C.js";import"./chunk-NIV2TCK4.js";export{a as default};
